-- Health of a NodeConfig for Argo CD, from its conditions of kstatus. Installation: docs/how-to/monitor.md.
-- Argo CD runs Lua 5.1, by default without the library `string`.
local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function health(state, condition)
  local message = condition.reason or ""
  if condition.message ~= nil and condition.message ~= "" then
    message = message .. ": " .. condition.message
  end
  return { status = state, message = message }
end

local ready, stalled = conditions["Ready"], conditions["Stalled"]
if status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the agent has yet to read this assignment" }
end
if stalled ~= nil and stalled.status == "True" then
  return health("Degraded", stalled)
end
if ready == nil then
  return { status = "Progressing", message = "the agent reports no condition Ready" }
end
if ready.status == "True" then
  return health("Healthy", ready)
end
local reconciling = conditions["Reconciling"]
if reconciling ~= nil and reconciling.status == "True" then
  return health("Progressing", reconciling)
end
return health("Progressing", ready)

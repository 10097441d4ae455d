{{/* Reports values that do not fit together. */}}
{{- define "nodecfg.check" -}}
{{- if and (eq .Values.agent.kind "daemonset") (not .Values.agent.image) }}
{{- fail "agent.image: name the image of the agents" }}
{{- end }}
{{- if and .Values.agent.joinFleet (eq .Values.agent.kind "none") }}
{{- fail "agent.joinFleet: nodes join only with agents; set agent.kind" }}
{{- end }}
{{- if and (or .Values.agent.joinFleet .Values.boot) (not (include "nodecfg.hasPolicies" .)) }}
{{- fail "agent.joinFleet and boot: these rights need admission policies, so Kubernetes 1.30; remove them" }}
{{- end }}
{{- if eq .Values.kubelet.configDir (dir .Values.kubelet.config) }}
{{- fail "kubelet.configDir: the folder of drop-ins must not be the folder of kubelet.config" }}
{{- end }}
{{- end }}

{{/* Not empty on a cluster with admission policies. */}}
{{- define "nodecfg.hasPolicies" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}true{{ end }}
{{- end }}

{{/* End of the names of cluster-wide bindings: a release in another namespace must not replace them. */}}
{{- define "nodecfg.suffix" -}}
{{- if ne .Release.Namespace "nodecfg-system" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* Address of the probes. A server on all addresses is probed on loopback. */}}
{{- define "nodecfg.probe" -}}
{{- $host := (split ":" .Values.agent.listen)._0 }}
{{- if eq $host "0.0.0.0" }}127.0.0.1{{ else }}{{ $host }}{{ end }}
{{- end }}

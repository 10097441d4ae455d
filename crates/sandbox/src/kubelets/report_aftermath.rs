//! Reports the [`Aftermath`] of a restart to the API server: devices of the node, and states of its pods.

use kube::Client;
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::aftermath::{AMOUNT, Aftermath, RESOURCE};
use super::attempts::{ATTEMPTS, attempt};
use super::requests::NODES;

/// Message of the kubelet for a pod whose devices are missing (`pkg/kubelet/cm/devicemanager/manager.go` and
/// `pkg/kubelet/cm/admission/errors.go`).
const MESSAGE: &str = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy \
                       devices nvidia.com/gpu, which is unexpected";

/// Carries out an effect in the API server.
pub(crate) async fn carry_out(client: &Client, node: &str, aftermath: Aftermath) -> Result<(), kube::Error> {
    match aftermath {
        Aftermath::DevicesGone => report_devices(client, node, 0).await,
        Aftermath::DevicesBack => report_devices(client, node, AMOUNT).await,
        Aftermath::PodRefused => {
            let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE,
                "conditions": [], "containerStatuses": []});
            let refused = ready_pods(client, node).await?.into_iter().min_by_key(Pod::place);
            report_pods(client, refused, &status).await
        }
        Aftermath::PodsUnready => {
            let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "ContainersNotReady"});
            let conditions = ["Ready", "ContainersReady"].map(condition);
            let status = json!({"conditions": conditions});
            report_pods(client, ready_pods(client, node).await?, &status).await
        }
    }
}

async fn report_devices(client: &Client, node: &str, amount: u32) -> Result<(), kube::Error> {
    let amounts = json!({RESOURCE: amount.to_string()});
    let patch = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    let request =
        Request::new(NODES).patch_subresource("status", node, &PatchParams::default(), &Patch::Strategic(patch));
    attempt(client, request.map_err(kube::Error::BuildRequest)?, ATTEMPTS).await
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    fn place(&self) -> (String, String) {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }

    fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}

async fn ready_pods(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let request = Request::new("/api/v1/pods").list(&params).map_err(kube::Error::BuildRequest)?;
    let pods: Pods = client.request(request).await?;
    Ok(pods.items.into_iter().filter(Pod::is_ready).collect())
}

async fn report_pods(client: &Client, pods: impl IntoIterator<Item = Pod>, status: &Value) -> Result<(), kube::Error> {
    for pod in pods {
        let (namespace, name) = pod.place();
        let patch = Patch::Merge(json!({"status": status}));
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"))
            .patch_subresource("status", &name, &PatchParams::default(), &patch)
            .map_err(kube::Error::BuildRequest)?;
        attempt(client, request, ATTEMPTS).await?;
    }
    Ok(())
}

//! Attempts to send a request of a simulated kubelet.

use std::time::Duration;

use kube::Client;

/// Attempts for a request that must succeed.
pub(crate) const ATTEMPTS: u32 = 8;

/// Sends a request until it succeeds or fails permanently, at most `attempts` times. Client errors other than 429 are
/// permanent.
pub(crate) async fn attempt(
    client: &Client,
    request: http::Request<Vec<u8>>,
    attempts: u32,
) -> Result<(), kube::Error> {
    let mut pause = Duration::from_millis(50);
    for _ in 1..attempts {
        match client.request_text(request.clone()).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                return Err(kube::Error::Api(status));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause *= 2;
    }
    client.request_text(request).await.map(|_| ())
}

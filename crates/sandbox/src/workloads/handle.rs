//! Public handle of the simulated workloads: start and stop.

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::driver::Driver;
use super::populate::populate;
use super::remote::RemoteDriver;
use super::spec::WorkloadSpec;
use crate::api::{Api, ApiError};

/// Running workloads, which stop when dropped. Their pods remain.
#[derive(Debug)]
pub struct Workloads {
    stop: watch::Sender<bool>,
    driver: JoinHandle<()>,
}

impl Workloads {
    /// Creates workloads and runs them. Returns once all pods that fit on nodes are ready. `speed` is that of the
    /// simulated kubelets.
    ///
    /// # Errors
    /// The API server's error for a refused object.
    pub fn start(api: &Api, spec: &WorkloadSpec, seed: u64, speed: f64) -> Result<Self, ApiError> {
        populate(api, spec)?;
        let mut driver = Driver::new(api, seed, speed);
        driver.fill();
        let (stop, stopped) = watch::channel(false);
        Ok(Self { stop, driver: tokio::spawn(driver.run(stopped)) })
    }

    /// Does the same on an API server outside this process.
    ///
    /// # Errors
    /// The error of a failed request. Some objects may exist by then.
    pub async fn start_on(client: Client, spec: &WorkloadSpec, seed: u64, speed: f64) -> Result<Self, kube::Error> {
        let driver = RemoteDriver::start(client, spec, seed, speed).await?;
        let (stop, stopped) = watch::channel(false);
        Ok(Self { stop, driver: tokio::spawn(driver.run(stopped)) })
    }

    /// Stops all workloads.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.driver).await {
            tracing::warn!(%error, "the driver of the simulated workloads failed");
        }
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

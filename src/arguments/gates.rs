//! Arguments for the gates of rollouts: address and credentials of Prometheus.

use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::cluster::parse_duration;
use crate::gates::{Evaluator, Prometheus, PrometheusAddress, Token};
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::reading::objects::ObjectReader;

/// Variable of the address.
const URL: &str = "NODECFG_PROMETHEUS_URL";
/// Variable of the token.
const TOKEN: &str = "NODECFG_PROMETHEUS_TOKEN";

/// Arguments for Prometheus. The repository has neither address nor credentials.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Gates")]
pub(crate) struct GateArgs {
    /// Ask the Prometheus server at this URL, instead of that of $NODECFG_PROMETHEUS_URL, for gates with queries.
    #[arg(long, value_name = "URL")]
    prometheus_url: Option<String>,
    /// Send Prometheus the bearer token in this file, instead of $NODECFG_PROMETHEUS_TOKEN. Requires https://, or an
    /// address of this machine. The file is read before each query.
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// Trust only the certificates of authorities in this PEM file for Prometheus, instead of those of this machine.
    #[arg(long, value_name = "FILE")]
    prometheus_ca_file: Option<PathBuf>,
}

/// Arguments for the gates of a rollout.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Gates")]
pub(crate) struct RolloutGateArgs {
    #[command(flatten)]
    gates: GateArgs,
    /// Ask each gate once per interval. An answer counts for two intervals.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_interval)]
    gate_interval: Duration,
}

/// How the gates of a rollout are asked.
pub(crate) struct GateOptions {
    pub(crate) evaluator: Evaluator,
    /// Interval in the nodes' time.
    pub(crate) interval: Duration,
}

impl RolloutGateArgs {
    /// Options for a rollout. Sends no request.
    pub(crate) fn options(&self, objects: ObjectReader) -> Result<GateOptions, CommandError> {
        Ok(GateOptions { evaluator: self.gates.evaluator(Some(objects))?, interval: self.gate_interval })
    }
}

/// Parses an interval, at least one second.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_secs(1) { Err("it must be at least 1s".to_owned()) } else { Ok(interval) }
}

impl GateArgs {
    /// Evaluator of gates. Without `objects`, gates with objects are unknown.
    ///
    /// # Errors
    /// The address, the token or the certificates cannot be used. Sends no request.
    pub(crate) fn evaluator(&self, objects: Option<ObjectReader>) -> Result<Evaluator, CommandError> {
        Ok(Evaluator::new(self.prometheus()?, objects))
    }

    fn prometheus(&self) -> Result<Option<Prometheus>, CommandError> {
        let given = self.prometheus_url.clone().map(|url| ("--prometheus-url", url));
        let given = given.or_else(|| environment::text(URL).map(|url| (URL, url)));
        let Some((name, url)) = given.filter(|(_, url)| !url.is_empty()) else { return Ok(None) };
        let help = "pass a URL such as https://prometheus.example.com";
        let invalid = |problem: String| CommandError::usage(format!("{name} {problem}"), help);
        let address = PrometheusAddress::parse(&url).map_err(invalid)?;
        let token = match (&self.prometheus_token_file, environment::text(TOKEN)) {
            (Some(file), _) => Token::File(file.clone()),
            (None, Some(token)) => Token::Text(token),
            (None, None) => Token::None,
        };
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| {
                let message = format!("--prometheus-ca-file {} cannot be read: {error}", path.display());
                CommandError::usage(message, "check the path and its permissions")
            })
        };
        let authorities = self.prometheus_ca_file.as_ref().map(read).transpose()?;
        let client = Prometheus::new(address, token, authorities.as_deref());
        client.map(Some).map_err(|problem| {
            CommandError::usage(format!("Prometheus cannot be asked: {problem}"), "check the --prometheus options")
        })
    }
}

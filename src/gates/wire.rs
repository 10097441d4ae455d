//! Answers of Prometheus' HTTP API (`/api/v1/query`), as its documentation and recorded answers describe them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodecfg_contract::printable::remark;
use nodecfg_rollout::judge::Series;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Limit of the series of an answer. Series of real metrics reach the limit of its bytes first; tiny ones would take many
/// times these bytes in memory.
const MAX_SERIES: usize = 10_000;

#[derive(Deserialize)]
struct Response<'a> {
    status: String,
    #[serde(default, borrow)]
    data: Option<Data<'a>>,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(rename = "resultType")]
    result_type: String,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Member of an instant vector: a sample, or a native histogram.
#[derive(Deserialize)]
struct Member {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    value: Option<(serde_json::Value, String)>,
    #[serde(default)]
    histogram: Option<serde::de::IgnoredAny>,
}

/// Form of a request. The server stops the evaluation after `seconds`.
pub fn form(expression: &str, seconds: u64) -> String {
    let mut form = String::from("query=");
    for byte in expression.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            form.push(char::from(byte));
        } else {
            form.push_str(&format!("%{byte:02X}"));
        }
    }
    form.push_str(&format!("&timeout={seconds}s"));
    form
}

/// Series of a response with this status.
///
/// # Errors
/// Why the response proves nothing, on one line: an error, a warning, or something else than an instant vector.
pub fn read(status: u16, body: &[u8]) -> Result<Vec<Series>, String> {
    let response = serde_json::from_slice::<Response<'_>>(body).ok();
    match (status, response) {
        (200, Some(response)) if response.status == "success" => series(&response),
        (401 | 403, _) => Err(format!("Prometheus refuses the request ({status}); check --prometheus-token-file")),
        (_, Some(response)) if response.status == "error" => {
            let error = if response.error.is_empty() { &response.error_type } else { &response.error };
            Err(format!("Prometheus refuses the query: {}", remark(error)))
        }
        (300..=399, _) => Err(format!("Prometheus redirects the request ({status}); check --prometheus-url")),
        (404, _) => Err("the server has no /api/v1/query; check --prometheus-url".to_owned()),
        (200, _) => Err("the answer is not one of Prometheus; check --prometheus-url".to_owned()),
        _ => Err(format!("Prometheus returns {status}")),
    }
}

fn series(response: &Response<'_>) -> Result<Vec<Series>, String> {
    if let Some(warning) = response.warnings.iter().flatten().next() {
        return Err(format!("the answer has a warning: {}", remark(warning)));
    }
    let Some(data) = &response.data else { return Err("the answer has no data".to_owned()) };
    if data.result_type != "vector" {
        let found = remark(&data.result_type);
        return Err(format!("the result is a {found}; use an expression whose result is an instant vector"));
    }
    let members: Vec<Member> =
        serde_json::from_str(data.result.get()).map_err(|_| "the answer has an unreadable result".to_owned())?;
    if members.len() > MAX_SERIES {
        return Err(format!("the answer has more than {MAX_SERIES} series; aggregate them"));
    }
    members.into_iter().map(one).collect()
}

fn one(member: Member) -> Result<Series, String> {
    let value = match (member.value, member.histogram) {
        (Some((_, value)), _) => value,
        (None, Some(_)) => "a histogram".to_owned(),
        (None, None) => return Err("the answer has a series without a value".to_owned()),
    };
    Ok(Series { labels: Arc::new(member.metric), value })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

//! Tests of answers that Prometheus 2.42 gave (`tests/data/prometheus`), and of those that its documentation describes.

use serde_json::Value;

use super::*;

/// Labels and values of the series, or the error.
fn shown(status: u16, body: &str) -> String {
    match read(status, body.as_bytes()) {
        Ok(series) => {
            let one = |series: &Series| format!("{:?}={}", series.labels, series.value);
            format!("[{}]", series.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Err(why) => why,
    }
}

#[test]
fn reads_recorded_answers() {
    let vector = "use an expression whose result is an instant vector";
    let expected = [
        ("up", "[{\"__name__\": \"up\", \"instance\": \"127.0.0.1:9090\", \"job\": \"self\"}=1]".to_owned()),
        ("up == 0", "[]".to_owned()),
        ("vector(1)", "[{}=1]".to_owned()),
        ("1", format!("the result is a scalar; {vector}")),
        ("up[5s]", format!("the result is a matrix; {vector}")),
        ("\"x\"", format!("the result is a string; {vector}")),
        (
            "up{",
            "Prometheus refuses the query: invalid parameter \"query\": 1:4: parse error: unexpected end of input inside \
             braces"
                .to_owned(),
        ),
        (
            "",
            "Prometheus refuses the query: invalid parameter \"query\": 1:1: parse error: no expression found in input"
                .to_owned(),
        ),
        (
            "label_replace(up, \"a b\",\"x\",\"\",\"\")",
            "Prometheus refuses the query: invalid destination label name in label_replace(): a b".to_owned(),
        ),
        (
            "label_replace(vector(1), \"weird\", \"a\\\"b\\nc\\\\d\", \"\", \"\")",
            "[{\"weird\": \"a\\\"b\\nc\\\\d\"}=1]".to_owned(),
        ),
        ("0/0 * vector(1)", "[{}=NaN]".to_owned()),
        ("vector(1)/0", "[{}=+Inf]".to_owned()),
        (
            "up",
            "Prometheus refuses the query: invalid parameter \"timeout\": cannot parse \"abc\" to a valid duration"
                .to_owned(),
        ),
        (
            "sum(rate(prometheus_http_requests_total[5m]))",
            "Prometheus refuses the query: query timed out in query execution".to_owned(),
        ),
    ];
    let recorded = include_str!("../../tests/data/prometheus/answers.jsonl").lines();
    let recorded: Vec<Value> = recorded.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(recorded.len(), expected.len());
    for (answer, (query, expected)) in recorded.iter().zip(expected) {
        assert_eq!(answer["query"], query);
        let status = u16::try_from(answer["status"].as_u64().expect("a status")).expect("a status");
        assert_eq!(shown(status, answer["body"].as_str().expect("a body")), expected, "{query}");
    }
}

/// https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview
#[test]
fn reads_documented_answers() {
    let with =
        |extra: &str| format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[]}}{extra}}}");
    assert_eq!(shown(200, &with("")), "[]");
    assert_eq!(shown(200, &with(",\"warnings\":[],\"infos\":[\"PromQL info: metric might not be a counter\"]")), "[]");
    assert_eq!(shown(200, &with(",\"warnings\":null")), "[]");
    assert_eq!(
        shown(200, &with(",\"warnings\":[\"PromQL warning:\\nquantile\\u001b\",\"b\"]")),
        "the answer has a warning: PromQL warning: quantile"
    );
    let histogram = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{\"a\":\"b\"},\
                     \"histogram\":[1435781451.781,{\"count\":\"60\",\"sum\":\"33\",\"buckets\":[[0,\"1\",\"2\",\"3\"]]}]}]}}";
    assert_eq!(shown(200, histogram), "[{\"a\": \"b\"}=a histogram]");
}

#[test]
fn other_answers_prove_nothing() {
    let success = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}";
    assert_eq!(shown(401, "secret"), "Prometheus refuses the request (401); check --prometheus-token-file");
    assert_eq!(shown(403, success), "Prometheus refuses the request (403); check --prometheus-token-file");
    assert_eq!(shown(302, success), "Prometheus redirects the request (302); check --prometheus-url");
    assert_eq!(shown(404, "404 page not found"), "the server has no /api/v1/query; check --prometheus-url");
    for (status, body) in [(500, ""), (500, success), (502, "<html>"), (204, ""), (299, success), (400, "no JSON")] {
        assert_eq!(shown(status, body), format!("Prometheus returns {status}"), "{body}");
    }
    let foreign = "the answer is not one of Prometheus; check --prometheus-url";
    for body in
        ["", "[]", "{}", "<html>", "{\"status\":\"ok\"}", "{\"status\":1}", "{\"status\":\"success\",\"data\":5}"]
    {
        assert_eq!(shown(200, body), foreign, "{body}");
    }
    assert_eq!(shown(200, "{\"status\":\"success\"}"), "the answer has no data");
    let result = |result: &str| {
        shown(200, &format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":{result}}}}}"))
    };
    for bad in ["5", "null", "[5]", "[{\"value\":[1,\"1\"]}]", "[{\"metric\":{\"a\":1},\"value\":[1,\"1\"]}]"] {
        assert_eq!(result(bad), "the answer has an unreadable result", "{bad}");
    }
    assert_eq!(result("[{\"metric\":{}}]"), "the answer has a series without a value");
    assert_eq!(
        shown(200, "{\"status\":\"error\",\"errorType\":\"canceled\"}"),
        "Prometheus refuses the query: canceled"
    );
}

/// Numbers, depths and counts that a hostile server may choose.
#[test]
fn hostile_answers_are_values_or_refused() {
    let result = |result: &str| {
        shown(200, &format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":{result}}}}}"))
    };
    for value in ["NaN", "+Inf", "-Inf", "1e400", "", "\u{1b}[2J"] {
        let member = serde_json::json!([{"metric": {}, "value": [0, value]}]).to_string();
        assert_eq!(result(&member), format!("[{{}}={value}]"));
    }
    let unreadable = "the answer has an unreadable result";
    for time in ["1e400", "-1e400", "1e99999999"] {
        assert_eq!(result(&format!("[{{\"metric\":{{}},\"value\":[{time},\"1\"]}}]")), unreadable, "{time}");
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(result(&nested(200_000)), unreadable);
    assert_eq!(result(&format!("[{{\"metric\":{{}},\"value\":[{},\"1\"]}}]", nested(200_000))), unreadable);
    let histogram = format!("[{{\"metric\":{{}},\"histogram\":{}}}]", nested(200_000));
    assert_eq!(result(&histogram), "[{}=a histogram]");
    // Of a repeated label, the last value counts, as for Go. Equal series are one for the judge.
    assert_eq!(result("[{\"metric\":{\"a\":\"b\",\"a\":\"c\"},\"value\":[0,\"1\"]}]"), "[{\"a\": \"c\"}=1]");
    let many = |count: usize| format!("[{}]", vec!["{\"metric\":{},\"value\":[0,\"1\"]}"; count].join(","));
    assert!(result(&many(MAX_SERIES)).starts_with("[{}=1 "));
    assert_eq!(result(&many(MAX_SERIES + 1)), "the answer has more than 10000 series; aggregate them");
}

#[test]
fn forms_are_escaped() {
    assert_eq!(form("a{b=\"é&+\"} > 1%", 10), "query=a%7Bb%3D%22%C3%A9%26%2B%22%7D%20%3E%201%25&timeout=10s");
}

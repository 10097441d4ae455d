//! Tests of the number of requests.

use std::collections::BTreeMap;

use super::super::prometheus::{PrometheusAddress, Token};
use super::super::stand_in::{Reply, StandIn};
use super::*;
use nodecfg_contract::ObjectId;

fn question(query: &str, present: &str) -> Question {
    Question::Prometheus(PrometheusQuery { query: query.to_owned(), present: present.to_owned() })
}

fn evaluator(url: &str) -> Evaluator {
    let client = Prometheus::new(PrometheusAddress::parse(url).unwrap(), Token::None, None).unwrap();
    Evaluator::new(Some(client), None)
}

fn counts(server: &StandIn) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for seen in server.seen() {
        *counts.entry(seen.query).or_insert(0) += 1;
    }
    counts
}

#[tokio::test]
async fn equal_expressions_are_asked_once() {
    let server =
        StandIn::start(|query| Some(Reply::vector(if query == "up" { &["{}", "{\"a\":\"b\"}"] } else { &[] }))).await;
    let questions: BTreeSet<Question> = [question("a", "up"), question("b", "up"), question("up", "a")].into();
    let answers = evaluator(&server.url).ask(&questions, &ScaledClock::real()).await;
    let found: Vec<(usize, usize)> = answers
        .iter()
        .map(|asked| match &asked.answer {
            Answer::Prometheus { firing: Ok(firing), present: Ok(present) } => (firing.len(), *present),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [(0, 2), (0, 2), (2, 0)]);
    assert_eq!(counts(&server), [("a".to_owned(), 1), ("b".to_owned(), 1), ("up".to_owned(), 1)].into());
}

#[tokio::test]
async fn gates_without_their_server_are_unknown() {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: None,
        by: ObjectId::Name("a".to_owned()),
    };
    let questions = [question("a", "b"), Question::Object(object)].into();
    let answers = Evaluator::new(None, None).ask(&questions, &ScaledClock::real()).await;
    let prometheus = Answer::Prometheus { firing: Err(NO_ADDRESS.to_owned()), present: Err(NO_ADDRESS.to_owned()) };
    let answers: Vec<Answer> = answers.into_iter().map(|asked| asked.answer).collect();
    assert_eq!(answers, [prometheus, Answer::Object(Err(NO_CLUSTER.to_owned()))]);
}

/// 50 gates on 200 pools: each expression is asked at most once per interval, and never by more than the bounded number
/// of requests at once.
#[tokio::test(flavor = "multi_thread")]
async fn cost_does_not_depend_on_pools() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (gates, pools, rounds) = (50, 200, 3);
    let busy = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = Arc::clone(&busy);
    let server = StandIn::start(move |_| {
        let now = seen.0.fetch_add(1, Ordering::SeqCst) + 1;
        seen.1.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        seen.0.fetch_sub(1, Ordering::SeqCst);
        Some(Reply::vector(&[]))
    })
    .await;
    let of_pools = (0..pools).flat_map(|_| (0..gates).map(|gate| question(&format!("query-{gate}"), "present")));
    let questions: BTreeSet<Question> = of_pools.collect();
    assert_eq!(questions.len(), gates);
    let mut watch = GateWatch::start(evaluator(&server.url), questions, Duration::from_millis(50), ScaledClock::real());
    let mut answers: BTreeMap<Question, Vec<Instant>> = BTreeMap::new();
    for _ in 0..gates * rounds {
        let asked = watch.next().await.expect("an answer");
        answers.entry(asked.question).or_default().push(asked.at);
    }
    drop(watch);
    assert_eq!(answers.len(), gates);
    for times in answers.values() {
        assert_eq!(times.len(), rounds, "each gate once per round");
        assert!(times.windows(2).all(|pair| pair[1] > pair[0]), "{times:?}");
    }
    let counts = counts(&server);
    assert_eq!(counts.len(), gates + 1);
    // The round after the last answer may have begun.
    assert!(counts.values().all(|count| (rounds..=rounds + 1).contains(count)), "{counts:?}");
    assert!(busy.1.load(Ordering::SeqCst) <= MAX_CONCURRENT);
}

#[tokio::test]
async fn rounds_begin_once_per_interval() {
    let interval = Duration::from_millis(30);
    let mut watch =
        GateWatch::start(Evaluator::new(None, None), [question("a", "b")].into(), interval, ScaledClock::real());
    let began = nodecfg_clock::instant();
    for round in 0..5 {
        watch.next().await.expect("an answer");
        assert!(began.elapsed() >= interval * round, "round {round} began too early");
    }
}

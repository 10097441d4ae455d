//! Asks the questions of gates: once now, or in a fixed interval during a rollout. Gates that share an expression or an
//! object share its answer, so the number of requests does not depend on the number of pools or nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::prometheus::Prometheus;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::reading::objects::ObjectReader;
use nodecfg_contract::ObjectRef;
use nodecfg_fleet::gates::{PrometheusQuery, Question};
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::judge::{Answer, Asked, Series};

/// Number of concurrent requests.
const MAX_CONCURRENT: usize = 8;
/// Reason of unknown gates if the command line names no Prometheus.
const NO_ADDRESS: &str = "no address of Prometheus; pass --prometheus-url";

/// Asks questions of gates. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Evaluator {
    prometheus: Option<Prometheus>,
    objects: Option<ObjectReader>,
}

/// Reason of unknown gates without an API server.
const NO_CLUSTER: &str = "no API server to ask";

/// Answer to an expression, which several questions may share.
type Expression = Shared<BoxFuture<'static, (Instant, Result<Vec<Series>, String>)>>;

impl Evaluator {
    /// Evaluator that asks this Prometheus and the API server of `objects`. Without one, its gates are unknown.
    #[must_use]
    pub fn new(prometheus: Option<Prometheus>, objects: Option<ObjectReader>) -> Self {
        Self { prometheus, objects }
    }

    /// Asks each question once, with the moments of this clock.
    pub async fn ask(&self, questions: &BTreeSet<Question>, clock: &ScaledClock) -> Vec<Asked> {
        let mut answers: Vec<Asked> = self.round(questions, clock).collect().await;
        answers.sort_by(|a, b| a.question.cmp(&b.question));
        answers
    }

    /// Answers to the questions, in the order of their arrival, with the moments of this clock.
    fn round(
        &self,
        questions: &BTreeSet<Question>,
        clock: &ScaledClock,
    ) -> FuturesUnordered<BoxFuture<'static, Asked>> {
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let mut expressions: BTreeMap<&str, Expression> = BTreeMap::new();
        for question in questions {
            if let Question::Prometheus(PrometheusQuery { query, present }) = question {
                for text in [query, present] {
                    expressions.entry(text).or_insert_with(|| self.expression(text, &slots, clock));
                }
            }
        }
        let asked = FuturesUnordered::new();
        for question in questions {
            match question {
                Question::Prometheus(PrometheusQuery { query, present }) => {
                    let (Some(firing), Some(present)) = (expressions.get(&**query), expressions.get(&**present)) else {
                        continue;
                    };
                    let (firing, present, question) = (firing.clone(), present.clone(), question.clone());
                    asked.push(
                        async move {
                            let ((at, firing), (_, present)) = futures::join!(firing, present);
                            let present = present.map(|series| series.len());
                            Asked { question, answer: Answer::Prometheus { firing, present }, at }
                        }
                        .boxed(),
                    );
                }
                Question::Object(object) => asked.push(self.object(object.clone(), &slots, clock)),
            }
        }
        asked
    }

    fn expression(&self, text: &str, slots: &Arc<Semaphore>, clock: &ScaledClock) -> Expression {
        let (prometheus, text, slots) = (self.prometheus.clone(), text.to_owned(), Arc::clone(slots));
        let clock = clock.clone();
        let ask = async move {
            let Some(prometheus) = prometheus else { return (now(&clock), Err(NO_ADDRESS.to_owned())) };
            // The semaphore is never closed.
            let _slot = slots.acquire().await;
            let at = now(&clock);
            (at, prometheus.query(&text).await)
        };
        ask.boxed().shared()
    }

    fn object(&self, object: ObjectRef, slots: &Arc<Semaphore>, clock: &ScaledClock) -> BoxFuture<'static, Asked> {
        let (objects, slots, clock) = (self.objects.clone(), Arc::clone(slots), clock.clone());
        async move {
            let _slot = slots.acquire().await;
            let at = now(&clock);
            let found = match objects {
                Some(objects) => objects.get(&object).await.map_err(|error| error.to_string()),
                None => Err(NO_CLUSTER.to_owned()),
            };
            Asked { question: Question::Object(object), answer: Answer::Object(found), at }
        }
        .boxed()
    }
}

fn now(clock: &ScaledClock) -> Instant {
    Instant::after_start(clock.elapsed())
}

/// Asks the questions of a rollout again and again, until it is dropped.
#[derive(Debug)]
pub struct GateWatch {
    answers: mpsc::Receiver<Asked>,
    task: JoinHandle<()>,
}

impl GateWatch {
    /// Starts to ask each question once per `interval`. A round that takes longer delays the next one. The moments of the
    /// answers are those of `clock`.
    #[must_use]
    pub fn start(evaluator: Evaluator, questions: BTreeSet<Question>, interval: Duration, clock: ScaledClock) -> Self {
        let (sender, answers) = mpsc::channel(MAX_CONCURRENT);
        let task = tokio::spawn(async move {
            loop {
                let next = nodecfg_clock::instant() + interval;
                let mut round = evaluator.round(&questions, &clock);
                while let Some(asked) = round.next().await {
                    if sender.send(asked).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep_until(next).await;
            }
        });
        Self { answers, task }
    }

    /// The next answer.
    pub async fn next(&mut self) -> Option<Asked> {
        self.answers.recv().await
    }
}

impl Drop for GateWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;

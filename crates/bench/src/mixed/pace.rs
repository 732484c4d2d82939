//! [`SteadyPace`]: asks one path at a steady pace, whatever time the answers take.

use std::{ops::Range, time::Duration};

use anyhow::Result;
use http_body_util::Full;
use hyper::{body::Bytes, client::conn::http1::SendRequest};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::served::{
    Process,
    client::{ask, connect},
};

/// How often which path is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct SteadyPace {
    pub(super) path: &'static str,
    pub(super) per_second: u32,
    /// Over which the reviews are spread, each with one in flight.
    pub(super) connections: u32,
}

/// What clients saw.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Of each review that got a verdict, from the moment at which it was due; ascending.
    pub(super) latencies_ms: Vec<f64>,
    /// Reviews that got none.
    pub(super) refused: usize,
}

impl SteadyPace {
    /// Asks from now until `measured` after `begin`; what is due from `begin` on counts.
    ///
    /// # Errors
    /// If a connection breaks.
    pub(super) async fn run(
        self,
        server: &Process,
        bodies: Vec<Bytes>,
        begin: Instant,
        measured: Duration,
    ) -> Result<Answers> {
        let first = Instant::now();
        let mut clients = JoinSet::new();
        for number in 0..self.connections {
            let sender = connect(server.address, &server.client).await?;
            // Reviews of one connection follow those of the one before at even distances.
            let due = first + Duration::from_secs(1) * number / self.per_second;
            let bodies = bodies.clone();
            clients.spawn(async move { self.ask_from(sender, bodies, due, begin..begin + measured).await });
        }
        let mut all = Answers::default();
        while let Some(own) = clients.join_next().await {
            let Answers {
                latencies_ms,
                refused,
            } = own??;
            all.latencies_ms.extend(latencies_ms);
            all.refused += refused;
        }
        all.latencies_ms.sort_by(f64::total_cmp);
        Ok(all)
    }

    async fn ask_from(
        self,
        mut sender: SendRequest<Full<Bytes>>,
        bodies: Vec<Bytes>,
        mut due: Instant,
        counts: Range<Instant>,
    ) -> Result<Answers> {
        let mut answers = Answers::default();
        for body in bodies.iter().cycle() {
            if due >= counts.end {
                break;
            }
            sleep_until(due).await;
            let is_answered = ask(&mut sender, self.path, body.clone()).await?;
            if counts.contains(&due) {
                if is_answered {
                    answers.latencies_ms.push(due.elapsed().as_secs_f64() * 1e3);
                } else {
                    answers.refused += 1;
                }
            }
            due += Duration::from_secs(1) * self.connections / self.per_second;
        }
        Ok(answers)
    }
}

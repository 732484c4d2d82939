//! The sampling thread, and the task that turns its samples into reports. `start` launches both.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use headroom_domain::hint::NodeHint;
use headroom_kit::admin;
use tokio::{
    select,
    sync::{mpsc, oneshot, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::StartError;
use crate::{
    config::Settings,
    decide::Decider,
    gather::{Gatherer, Sample},
    local::{
        checkpoint::{self, CheckpointFile},
        debug::PodsAsked,
    },
    publish::Directive,
    sample::cpus::CpuSet,
};

/// A thread that measures has ended, though nobody asked it to; the log says what it died of.
#[derive(Debug, thiserror::Error)]
#[error("a thread that measures has ended")]
pub(super) struct ThreadEnded;

/// The ends of the channels of who decides.
pub(super) struct DecideEnds {
    pub(super) samples: mpsc::Receiver<Sample>,
    pub(super) directives: mpsc::Receiver<Directive>,
    pub(super) pods: mpsc::Receiver<PodsAsked>,
    /// What is in force, whenever it changes.
    pub(super) settings: watch::Receiver<Settings>,
    /// For what is to be saved; `None` if nothing is.
    pub(super) records_tx: Option<watch::Sender<Option<Arc<CheckpointFile>>>>,
    pub(super) reports_tx: watch::Sender<Option<Arc<NodeHint>>>,
    /// Told each time that there may be something else to show.
    pub(super) changes_tx: watch::Sender<()>,
    /// For who samples: CPUs that one pod each holds.
    pub(super) exclusive_tx: watch::Sender<CpuSet>,
}

/// Starts the sampling thread; the future ends when the thread does, with an error if it was not to.
pub(super) fn sample(
    gatherer: Gatherer,
    samples_tx: mpsc::Sender<Sample>,
    exclusive: watch::Receiver<CpuSet>,
    stopping: CancellationToken,
) -> Result<impl Future<Output = Result<(), ThreadEnded>>, StartError> {
    let (ended_tx, ended) = oneshot::channel();
    let body = move || {
        gatherer.run(&samples_tx, exclusive, &stopping);
        // Dropped instead, which is an error to who waits, where the thread that reads for it is gone.
        if stopping.is_cancelled() {
            let _is_heard = ended_tx.send(()).is_ok();
        }
    };
    thread::Builder::new()
        .name("sample".to_owned())
        .spawn(body)
        .map_err(StartError::Runtime)?;
    Ok(async { ended.await.map_err(|_dropped| ThreadEnded) })
}

/// Who decides and who shows are tasks of one thread, and neither keeps the lock while it waits: it is always free.
pub(super) fn lock(decider: &Mutex<Decider>) -> MutexGuard<'_, Decider> {
    decider.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Decides until the end; the last report says that it is the last.
pub(super) async fn decide(
    decider: Arc<Mutex<Decider>>,
    ends: DecideEnds,
    is_sampling: admin::PartReadiness,
    stopping: CancellationToken,
) {
    let DecideEnds {
        mut samples,
        mut directives,
        mut pods,
        mut settings,
        records_tx,
        reports_tx,
        changes_tx,
        exclusive_tx,
    } = ends;
    loop {
        select! {
            Some(sample) = samples.recv() => {
                let mut decider = lock(&decider);
                decider.observe(sample);
                let exclusive = decider.exclusive_cpus();
                exclusive_tx.send_if_modified(|known| {
                    let is_new = known != exclusive;
                    known.clone_from(exclusive);
                    is_new
                });
                is_sampling.ready();
            }
            Some(directive) = directives.recv() => lock(&decider).direct(directive),
            Some(asked) = pods.recv() => {
                // Whoever asked may have gone.
                let _is_heard = asked.send(lock(&decider).pods()).is_ok();
                // Nothing has changed, so there is nothing to report, save or show.
                continue;
            }
            Ok(()) = settings.changed() => lock(&decider).adopt(&settings.borrow_and_update()),
            () = stopping.cancelled() => break,
        }
        let mut decider = lock(&decider);
        if let Some(report) = decider.report() {
            reports_tx.send_replace(Some(Arc::new(report)));
        }
        if let Some(records_tx) = &records_tx
            && decider.has_more_to_save()
        {
            records_tx.send_replace(decider.record(checkpoint::wall()).map(Arc::new));
        }
        changes_tx.send_replace(());
    }
    let mut decider = lock(&decider);
    if let Some(records_tx) = &records_tx {
        records_tx.send_replace(decider.record(checkpoint::wall()).map(Arc::new));
    }
    if let Some(report) = decider.final_report() {
        info!(seq = report.seq, "reporting for the last time");
        reports_tx.send_replace(Some(Arc::new(report)));
    }
}

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

/// A measuring thread has ended before the shutdown; its panic is in the log.
#[derive(Debug, thiserror::Error)]
#[error("a measuring thread has ended; see the log for its panic")]
pub(super) struct ThreadEnded;

/// Channels of the task `decide`.
pub(super) struct DecideEnds {
    pub(super) samples: mpsc::Receiver<Sample>,
    pub(super) directives: mpsc::Receiver<Directive>,
    pub(super) pods: mpsc::Receiver<PodsAsked>,
    /// Settings in force, updated at each change.
    pub(super) settings: watch::Receiver<Settings>,
    /// Records for the task `checkpoint`; `None` if checkpoints are off.
    pub(super) records_tx: Option<watch::Sender<Option<Arc<CheckpointFile>>>>,
    pub(super) reports_tx: watch::Sender<Option<Arc<NodeHint>>>,
    /// Notified each time that the status may have changed.
    pub(super) changes_tx: watch::Sender<()>,
    /// Exclusive CPUs of pods, for the sampling thread.
    pub(super) exclusive_tx: watch::Sender<CpuSet>,
}

/// Starts the sampling thread. The future ends with the thread; it fails if the thread ends before `stopping`.
pub(super) fn sample(
    gatherer: Gatherer,
    samples_tx: mpsc::Sender<Sample>,
    exclusive: watch::Receiver<CpuSet>,
    stopping: CancellationToken,
) -> Result<impl Future<Output = Result<(), ThreadEnded>>, StartError> {
    let (ended_tx, ended) = oneshot::channel();
    let body = move || {
        gatherer.run(&samples_tx, exclusive, &stopping);
        // If the accounts thread has died, the sender is dropped instead, which the future below reports.
        if stopping.is_cancelled() {
            let _is_received = ended_tx.send(()).is_ok();
        }
    };
    thread::Builder::new()
        .name("sample".to_owned())
        .spawn(body)
        .map_err(StartError::Runtime)?;
    Ok(async { ended.await.map_err(|_dropped| ThreadEnded) })
}

/// Locks the decider. The lock is always free: its users are tasks of one thread, and none keeps it across an await.
pub(super) fn lock(decider: &Mutex<Decider>) -> MutexGuard<'_, Decider> {
    decider.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes samples, directives and settings until the agent ends. The final report is marked as the last.
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
                // The client may have disconnected.
                let _is_received = asked.send(lock(&decider).pods()).is_ok();
                // Nothing has changed that would be reported, saved or shown.
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
        info!(seq = report.seq, "sending the final report");
        reports_tx.send_replace(Some(Arc::new(report)));
    }
}

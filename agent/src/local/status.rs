//! `StatusRequests` makes the agent's status on request: for `/status`, the gauges and the debug service. Also
//! `PodStatus`, which the debug service alone shows, and `program`, the status of one hook.

use std::{fmt, sync::Arc};

use headroom_domain::estimate::{PodRequest, PodUse};
pub use headroom_proto::status::{
    AckStatus, CalibrationStatus, FIELDS, HistoryStatus, Measured, PeakStatus, Place, PodsStatus,
    ProgramStatus, ResourceStatus, SignalStatus, Status, StatusField, StreamState, StreamStatus,
};
use tokio::sync::watch;

use crate::kernel::probe::{Flavour, HookVerdict};

/// Path of the document on the admin port.
pub const PATH: &str = "/status";

/// Handle for status requests. The status is computed on request.
#[derive(Clone)]
pub struct StatusRequests {
    status: Arc<dyn Fn() -> Status + Send + Sync>,
    /// Notified of each possible change.
    changes: watch::Receiver<()>,
    streams: watch::Receiver<Vec<StreamStatus>>,
}

/// Pod with a cgroup on this node, or in a directive: more detail than in `/status`, for the debug socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    pub uid: String,
    /// Use in the last frame; absent before its second reading.
    pub used: Option<PodUse>,
    /// Request; absent while no hint server reports it.
    pub request: Option<PodRequest>,
    /// Trusted unused share of its request, in ppm, for the resource with the lower trust.
    pub trust_ppm: u32,
    /// CPUs that it holds for itself alone, in milli-cores.
    pub exclusive_milli: u64,
}

/// Status of a hook, without its run statistics.
pub fn program(verdict: &HookVerdict) -> ProgramStatus {
    let HookVerdict {
        hook,
        health,
        flavour,
        reason,
        verifier_log,
    } = verdict;
    let flavour = flavour.map(|flavour| match flavour {
        Flavour::Typed => "typed",
        Flavour::Raw => "raw",
    });
    ProgramStatus {
        hook: hook.tracepoint().to_owned(),
        health: health.name().to_owned(),
        flavour: flavour.map(ToOwned::to_owned),
        reason: reason.clone(),
        runs: 0,
        run_time_ns: 0,
        verifier_log: verifier_log.clone(),
    }
}

impl fmt::Debug for StatusRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusRequests").finish_non_exhaustive()
    }
}

impl StatusRequests {
    /// Combines `status` with the streams; it changes with them.
    pub fn new(
        status: impl Fn() -> Status + Send + Sync + 'static,
        changes: watch::Receiver<()>,
        streams: watch::Receiver<Vec<StreamStatus>>,
    ) -> Self {
        let status = Arc::new(status);
        Self {
            status,
            changes,
            streams,
        }
    }

    pub fn now(&mut self) -> Status {
        self.changes.mark_unchanged();
        Status {
            streams: self.streams.borrow_and_update().clone(),
            ..(self.status)()
        }
    }

    /// Waits until [`StatusRequests::now`] would differ; false once the senders are dropped.
    pub async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.changes.changed() => changed.is_ok(),
            changed = self.streams.changed() => changed.is_ok(),
        }
    }
}

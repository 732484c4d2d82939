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

/// Where the agent's status is asked for. It is made when somebody asks.
#[derive(Clone)]
pub struct StatusRequests {
    /// Everything but the streams.
    status: Arc<dyn Fn() -> Status + Send + Sync>,
    /// Told each time that there may be something else to say.
    changes: watch::Receiver<()>,
    streams: watch::Receiver<Vec<StreamStatus>>,
}

/// One pod with a cgroup on this node, or told of by a hint server: more than `/status` says, for who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    /// Its UID.
    pub uid: String,
    /// What it used in the last frame; absent before its second reading.
    pub used: Option<PodUse>,
    /// What it requests; absent while no hint server tells of it.
    pub request: Option<PodRequest>,
    /// How far its request is trusted to be mostly unused, of the resource in which it is trusted less.
    pub trust_ppm: u32,
    /// CPUs that it holds for itself alone, in milli-cores.
    pub exclusive_milli: u64,
}

/// What became of a hook, without its runs.
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
    /// What `status` makes, with the streams; it changes with these.
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

    /// The agent now.
    pub fn now(&mut self) -> Status {
        self.changes.mark_unchanged();
        Status {
            streams: self.streams.borrow_and_update().clone(),
            ..(self.status)()
        }
    }

    /// Waits until [`StatusRequests::now`] would say something else; false when nobody writes any more.
    pub async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.changes.changed() => changed.is_ok(),
            changed = self.streams.changed() => changed.is_ok(),
        }
    }
}

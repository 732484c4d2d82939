//! [`CertificateState`]: certificates in use and the state of their rotation, for readiness, metrics, Events and debug
//! queries.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use headroom_kit::{admin::PartReadiness, tls::authority};
use tokio::sync::watch;

use super::{
    material::{Progress, STATES, Usable},
    rotation::seconds,
};
use crate::control::metrics::{AUTHORITY_EXPIRY, CERTIFICATE_PROBLEM, ROTATION_STATE};

/// Difference of two clocks above which it is a problem: certificates are valid from an hour before they are issued.
const MOST_SKEW: Duration = Duration::from_secs(300);

/// Steps that are kept: those of two rotations.
const MOST_STEPS: usize = 8;

/// CAs that clients should trust. Empty until they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// In PEM.
    pub pem: Arc<str>,
    /// SHA-256 of the text, in lower-case hexadecimal digits.
    pub fingerprint: Arc<str>,
}

/// The last step of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStep {
    /// UID of the Secret.
    pub uid: String,
    pub progress: Progress,
}

/// Shared state of the certificates.
#[derive(Debug)]
pub struct CertificateState {
    bundle: watch::Sender<Bundle>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    problem: Option<String>,
    step: Option<LastStep>,
    /// The last steps, the newest last: some states are shorter than the interval of Events.
    steps: VecDeque<LastStep>,
    skew: Option<Skew>,
    authority_ends_s: Option<i64>,
    /// Fingerprint of the bundle in each object, or the reason why it has another one.
    stored: BTreeMap<String, Result<Arc<str>, String>>,
}

/// Difference of this replica's clock to the API server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Skew {
    by: Duration,
    is_ahead: bool,
}

impl Default for CertificateState {
    fn default() -> Self {
        Self {
            bundle: watch::Sender::new(Bundle::default()),
            inner: Mutex::default(),
        }
    }
}

impl Bundle {
    pub fn new(pem: &str) -> Self {
        Self {
            pem: pem.into(),
            fingerprint: authority::fingerprint(pem.as_bytes()).into(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.pem.is_empty()
    }
}

impl CertificateState {
    /// Receiver of the CAs that clients should trust.
    pub fn bundle(&self) -> watch::Receiver<Bundle> {
        self.bundle.subscribe()
    }

    /// Records the content of the Secret in use.
    pub(super) fn adopt(&self, usable: &Usable, step: Option<LastStep>) {
        self.adopt_bundle(&usable.bundle, step);
    }

    /// Records the CAs that clients should trust.
    pub(super) fn adopt_bundle(&self, pem: &str, step: Option<LastStep>) {
        let bundle = Bundle::new(pem);
        self.bundle.send_if_modified(|current| {
            let has_changed = *current != bundle;
            *current = bundle;
            has_changed
        });
        let ends = authority::first_end_s(pem).ok();
        if let Some(ends) = ends {
            AUTHORITY_EXPIRY
                .with([])
                .set(f64::from(u32::try_from(ends).unwrap_or(u32::MAX)));
        }
        for state in STATES {
            let current = step.as_ref().map(|step| step.progress.state);
            let is_current = current == Some(state);
            ROTATION_STATE
                .with([state.name()])
                .set(if is_current { 1.0 } else { 0.0 });
        }
        let mut inner = self.lock();
        inner.authority_ends_s = ends;
        if let Some(step) = step.as_ref().filter(|step| inner.steps.back() != Some(step)) {
            inner.steps.push_back(step.clone());
            if inner.steps.len() > MOST_STEPS {
                inner.steps.pop_front();
            }
        }
        inner.step = step;
    }

    /// Records why the newest content of the Secret is not in use; `None` if it is.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        CERTIFICATE_PROBLEM
            .with([])
            .set(if problem.is_some() { 1.0 } else { 0.0 });
        self.lock().problem = problem;
    }

    /// Records both clocks.
    pub(super) fn compare_clocks(&self, ours: SystemTime, theirs: SystemTime) {
        let skew = match ours.duration_since(theirs) {
            Ok(by) => Skew { by, is_ahead: true },
            Err(error) => Skew {
                by: error.duration(),
                is_ahead: false,
            },
        };
        self.lock().skew = Some(skew);
    }

    /// Records the state of an object that should contain the bundle; `None` if there is no such object.
    pub(super) fn set_stored(&self, object: &str, stored: Option<Result<Arc<str>, String>>) {
        let mut inner = self.lock();
        match stored {
            Some(stored) => {
                inner.stored.insert(object.to_owned(), stored);
            }
            None => {
                inner.stored.remove(object);
            }
        }
    }

    /// Forgets the state of all objects: another replica writes them from now on.
    pub(super) fn forget_stored(&self) {
        self.lock().stored.clear();
    }

    /// True if every object has the current bundle.
    pub(super) fn is_stored(&self) -> bool {
        let bundle = Arc::clone(&self.bundle.borrow().fingerprint);
        let inner = self.lock();
        !inner.stored.is_empty() && inner.stored.values().all(|stored| stored.as_ref() == Ok(&bundle))
    }

    /// The last step of the rotation; `None` if another writer has the Secret.
    pub fn step(&self) -> Option<LastStep> {
        self.lock().step.clone()
    }

    /// The last steps that this replica has observed, the newest last.
    pub fn steps(&self) -> Vec<LastStep> {
        self.lock().steps.iter().cloned().collect()
    }

    /// Seconds until the first of the CAs expires; negative afterwards. `None` if they are not known.
    pub fn authority_left_s(&self, now: SystemTime) -> Option<i64> {
        Some(self.lock().authority_ends_s?.saturating_sub(seconds(now)))
    }

    /// Everything that needs attention, each in one sentence.
    pub fn problems(&self) -> Vec<String> {
        let inner = self.lock();
        let mut problems: Vec<String> = inner.problem.iter().cloned().collect();
        let stored = inner.stored.iter();
        problems.extend(stored.filter_map(|(object, stored)| {
            let reason = stored.as_ref().err()?;
            Some(format!("{object} does not have the CA bundle: {reason}"))
        }));
        if let Some(Skew { by, is_ahead }) = inner.skew.filter(|skew| skew.by > MOST_SKEW) {
            let direction = if is_ahead { "ahead of" } else { "behind" };
            problems.push(format!(
                "the clock of this replica is {} s {direction} the API server's; certificates follow the earlier one",
                by.as_secs()
            ));
        }
        problems
    }

    /// Shows the problems as a part of readiness that does not count.
    pub(super) fn show(&self, note: &PartReadiness) {
        let problems = self.problems();
        if problems.is_empty() {
            note.ready();
        } else {
            note.not_ready(problems.join("; "));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is a single assignment, so a panic elsewhere cannot leave an inconsistent state.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

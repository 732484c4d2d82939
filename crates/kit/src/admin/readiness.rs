//! Readiness of a process: it is ready when every registered part has reported ready. The admin port serves it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::info;

/// What the parts of a process say. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<Checks>>,
}

type Checks = BTreeMap<&'static str, Result<(), String>>;

/// The voice of one part. What it said last counts on when it is dropped.
#[derive(Clone, Debug)]
pub struct PartReadiness {
    name: &'static str,
    readiness: Readiness,
}

impl Readiness {
    /// Nobody has a say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a part its say. It is not ready until it says so. Parts of one name share their say.
    pub fn handle(&self, name: &'static str) -> PartReadiness {
        self.lock()
            .entry(name)
            .or_insert_with(|| Err("not ready yet".to_owned()));
        PartReadiness {
            name,
            readiness: self.clone(),
        }
    }

    /// Whether every part is ready.
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(Result::is_ok)
    }

    /// Every part with its state, by name; an error is the reason it gave.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        self.lock()
            .iter()
            .map(|(name, state)| (*name, state.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Checks> {
        // Every change is one assignment: a panic elsewhere leaves nothing half done.
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartReadiness {
    /// This part is ready.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// This part is not ready, for a reason that people may read.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    fn set(&self, state: Result<(), String>) {
        let mut checks = self.readiness.lock();
        let is_same = checks.get(self.name) == Some(&state);
        if !is_same {
            info!(
                part = self.name,
                is_ready = state.is_ok(),
                reason = state.as_ref().err(),
                "readiness changed"
            );
            checks.insert(self.name, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_every_part_is() {
        let readiness = Readiness::new();
        let (cache, certificates) = (readiness.handle("cache"), readiness.handle("certificates"));
        cache.ready();
        assert!(!readiness.is_ready());
        certificates.ready();
        assert!(readiness.is_ready());
        cache.not_ready("watch lost");
        assert!(!readiness.is_ready());
        assert_eq!(
            readiness.checks(),
            [("cache", Err("watch lost".to_owned())), ("certificates", Ok(()))]
        );
    }

    #[test]
    fn a_second_handle_of_a_name_does_not_take_back_what_the_first_said() {
        let readiness = Readiness::new();
        readiness.handle("cache").ready();
        drop(readiness.handle("cache"));
        assert!(readiness.is_ready());
    }
}

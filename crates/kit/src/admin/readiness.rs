//! Readiness of a process: it is ready when every registered part has reported ready. The admin port serves it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::info;

/// Readiness of the parts of a process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<Checks>>,
}

#[derive(Debug, Default)]
struct Checks {
    /// Parts that readiness depends on.
    counting: States,
    /// Parts that are shown only.
    noted: States,
}

type States = BTreeMap<&'static str, Result<(), String>>;

/// Handle of one readiness check. The last reported state stays in force after the handle is dropped.
#[derive(Clone, Debug)]
pub struct PartReadiness {
    name: &'static str,
    counts: bool,
    readiness: Readiness,
}

impl Readiness {
    /// Creates a readiness without parts, which is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a part that readiness depends on. It is not ready until it reports so. Handles of one name share one
    /// state.
    pub fn handle(&self, name: &'static str) -> PartReadiness {
        self.part(name, true)
    }

    /// Registers a part that is shown only: readiness does not depend on it. Otherwise like [`Self::handle`].
    pub fn note(&self, name: &'static str) -> PartReadiness {
        self.part(name, false)
    }

    /// Returns true if every required part is ready.
    pub fn is_ready(&self) -> bool {
        self.lock().counting.values().all(Result::is_ok)
    }

    /// Required parts with their states, by name; an error is the reported reason.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        all(&self.lock().counting)
    }

    /// Parts that are shown only with their states, by name; an error is the reported reason.
    pub fn notes(&self) -> Vec<(&'static str, Result<(), String>)> {
        all(&self.lock().noted)
    }

    fn part(&self, name: &'static str, counts: bool) -> PartReadiness {
        self.lock()
            .states(counts)
            .entry(name)
            .or_insert_with(|| Err("not ready yet".to_owned()));
        PartReadiness {
            name,
            counts,
            readiness: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Checks> {
        // Every change is a single assignment, so a panic elsewhere cannot leave an inconsistent state.
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checks {
    fn states(&mut self, counts: bool) -> &mut States {
        if counts {
            &mut self.counting
        } else {
            &mut self.noted
        }
    }
}

fn all(states: &States) -> Vec<(&'static str, Result<(), String>)> {
    let states = states.iter();
    states.map(|(name, state)| (*name, state.clone())).collect()
}

impl PartReadiness {
    /// Reports this part as ready; a change of a required part is logged.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// Reports this part as not ready. The reason is shown to users by `/readyz`.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    /// Removes this part: it is no longer required and no longer shown.
    pub fn withdraw(self) {
        self.readiness.lock().states(self.counts).remove(self.name);
    }

    fn set(&self, state: Result<(), String>) {
        let mut checks = self.readiness.lock();
        let states = checks.states(self.counts);
        let is_same = states.get(self.name) == Some(&state);
        if !is_same && self.counts {
            info!(
                part = self.name,
                is_ready = state.is_ok(),
                reason = state.as_ref().err(),
                "readiness changed"
            );
        }
        if !is_same {
            states.insert(self.name, state);
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
    fn optional_parts_are_shown_but_do_not_affect_readiness() {
        let readiness = Readiness::new();
        readiness.handle("cache").ready();
        let profiles = readiness.note("profiles");
        assert!(readiness.is_ready());
        profiles.not_ready("no right");
        assert!(readiness.is_ready());
        assert_eq!(readiness.notes(), [("profiles", Err("no right".to_owned()))]);
        assert_eq!(readiness.checks(), [("cache", Ok(()))]);
    }

    #[test]
    fn a_second_handle_keeps_the_state_set_by_the_first() {
        let readiness = Readiness::new();
        readiness.handle("cache").ready();
        drop(readiness.handle("cache"));
        assert!(readiness.is_ready());
    }
}

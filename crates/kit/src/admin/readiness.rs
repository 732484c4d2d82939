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
    /// Parts that all have to be ready.
    counting: States,
    /// Parts that are shown, and on which readiness does not depend.
    noted: States,
}

type States = BTreeMap<&'static str, Result<(), String>>;

/// The voice of one part. What it said last counts on when it is dropped.
#[derive(Clone, Debug)]
pub struct PartReadiness {
    name: &'static str,
    counts: bool,
    readiness: Readiness,
}

impl Readiness {
    /// Nobody has a say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a part its say. It is not ready until it says so. Parts of one name share their say.
    pub fn handle(&self, name: &'static str) -> PartReadiness {
        self.part(name, true)
    }

    /// Shows how a part is without giving it a say: the process is ready whatever its state. Otherwise as [`Self::handle`].
    pub fn note(&self, name: &'static str) -> PartReadiness {
        self.part(name, false)
    }

    /// Whether every part is ready that has a say.
    pub fn is_ready(&self) -> bool {
        self.lock().counting.values().all(Result::is_ok)
    }

    /// Every part that has a say with its state, by name; an error is the reason it gave.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        all(&self.lock().counting)
    }

    /// Every part that has no say with its state, by name; an error is the reason it gave.
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
        // Every change is one assignment: a panic elsewhere leaves nothing half done.
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
    /// This part is ready.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// This part is not ready, for a reason that people may read.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    /// Takes back whatever this part said: it is neither counted nor shown any more.
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
    fn a_part_without_a_say_is_shown_and_keeps_nothing_from_being_ready() {
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
    fn a_second_handle_of_a_name_does_not_take_back_what_the_first_said() {
        let readiness = Readiness::new();
        readiness.handle("cache").ready();
        drop(readiness.handle("cache"));
        assert!(readiness.is_ready());
    }
}

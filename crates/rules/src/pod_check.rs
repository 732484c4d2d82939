//! Shared parts of the Pod checks: the requests that are checked, and the faults that count in an update.

use headroom_domain::field::Errors;

use crate::switch::{Switch, Switches};

/// Switch: a refusal contains the faults of all steps.
pub static ALL_STEPS: Switch = Switch {
    name: "PodTellsAllSteps",
    default: true,
    row: "several faults",
    koordinator: "a refusal contains only the faults of the first step that finds any",
    about: "a refusal contains the faults of all steps",
    why: "one attempt shows every fault of a pod",
};

/// Switch: resizes of running pods are checked.
pub static RESIZES: Switch = Switch {
    name: "PodChecksResizes",
    default: true,
    row: "D-24",
    koordinator: "`pods/resize` is not checked",
    about: "`pods/resize` is checked like an update",
    why: "otherwise a resize could give a running pod a state that new pods may not have",
};

/// Switch: an update may keep the faults of the stored Pod.
pub static RATCHETS: Switch = Switch {
    name: "PodKeepsOldFaults",
    default: true,
    row: "D-25",
    koordinator: "an update is refused for any fault of the pod",
    about: "an update is refused only for new faults; faults of the stored pod may stay",
    why: "otherwise a pod older than a rule could not be changed, and its finalizers could not be removed",
};

/// Returns the faults that count: in an update, if the switch is on, only those that the stored Pod does not have.
pub fn new_faults(faults: Errors, stored: Option<impl FnOnce() -> Errors>, switches: &Switches) -> Errors {
    let Some(stored) = stored.filter(|_| !faults.is_empty() && switches.is_on(&RATCHETS)) else {
        return faults;
    };
    let stored = stored();
    let fresh = faults.into_iter().filter(|fault| !stored.contains(fault));
    fresh.collect()
}

#[cfg(test)]
mod tests {
    use headroom_domain::field::{Error, Path};

    use super::*;
    use crate::{SWITCHES, switch::Compat};

    fn errors(names: &[&str]) -> Errors {
        let missing = names.iter().map(|name| Error::required(&Path::new(name), ""));
        missing.collect()
    }

    #[test]
    fn an_update_may_keep_existing_faults() {
        let ours = Switches::preset(SWITCHES, Compat::Headroom);
        let stored = || errors(&["b", "c"]);
        for (faults, fresh) in [
            (&["a", "b"][..], &["a"][..]),
            (&["b", "c"], &[]),
            (&[], &[]),
            (&["d", "a"], &["d", "a"]),
        ] {
            assert_eq!(new_faults(errors(faults), Some(stored), &ours), errors(fresh));
        }
    }

    #[test]
    fn new_pods_and_koordinator_keep_no_faults() {
        let faults = || errors(&["a", "b"]);
        for compat in [Compat::Headroom, Compat::Upstream] {
            let switches = Switches::preset(SWITCHES, compat);
            assert_eq!(new_faults(faults(), None::<fn() -> Errors>, &switches), faults());
        }
        let switches = Switches::preset(SWITCHES, Compat::Upstream);
        assert_eq!(new_faults(faults(), Some(faults), &switches), faults());
    }
}

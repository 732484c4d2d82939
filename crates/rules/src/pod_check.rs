//! What the checks of a Pod share: which requests they are for, and which faults count in an update.

use headroom_domain::field::Errors;

use crate::switch::{Switch, Switches};

/// Whether one answer has the faults of all steps.
pub static ALL_STEPS: Switch = Switch {
    name: "PodTellsAllSteps",
    default: true,
    row: "several faults",
    koordinator: "a refusal has the faults that the first step with any finds",
    about: "a refusal has the faults that all steps find",
    why: "one try is enough to learn all that is wrong with a pod",
};

/// Whether resizes of running pods are checked.
pub static RESIZES: Switch = Switch {
    name: "PodChecksResizes",
    default: true,
    row: "D-24",
    koordinator: "`pods/resize` is not checked",
    about: "`pods/resize` is checked as an update is",
    why: "else a resize makes of a running pod what no new pod may be",
};

/// Whether an update may keep the faults of the stored Pod.
pub static RATCHETS: Switch = Switch {
    name: "PodKeepsOldFaults",
    default: true,
    row: "D-25",
    koordinator: "an update is refused for whatever is wrong with the pod",
    about: "an update is refused for what it makes wrong; what was wrong with the stored pod may stay",
    why: "a pod that was there before a rule could not be changed any more, and its finalizers could not be removed",
};

/// The faults that count: in an update those that the stored Pod does not have as well, if updates may keep those.
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
    fn an_update_may_keep_what_was_wrong() {
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
    fn a_new_pod_may_not_and_neither_may_any_with_koordinator() {
        let faults = || errors(&["a", "b"]);
        for compat in [Compat::Headroom, Compat::Upstream] {
            let switches = Switches::preset(SWITCHES, compat);
            assert_eq!(new_faults(faults(), None::<fn() -> Errors>, &switches), faults());
        }
        let switches = Switches::preset(SWITCHES, Compat::Upstream);
        assert_eq!(new_faults(faults(), Some(faults), &switches), faults());
    }
}

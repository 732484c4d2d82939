//! Drops the agent's capabilities once the kernel programs are attached: counting needs none. Called by `start`.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};
use tracing::{debug, info, warn};

/// Drops the capabilities of this thread and of threads that it starts from now on.
///
/// Call it while the process has one thread: each thread has its own capabilities. All are dropped, and executed programs
/// cannot gain any (`no_new_privs`). Before Linux 5.19 the kernel may refuse to read maps without CAP_BPF: if `can_count`
/// returns false without capabilities, CAP_BPF is kept.
pub fn give_up(can_count: impl FnOnce() -> bool) {
    if let Err(error) = give_up_all(can_count) {
        warn!(%error, "cannot drop capabilities: the agent keeps those that it was started with");
    }
}

fn give_up_all(can_count: impl FnOnce() -> bool) -> io::Result<()> {
    set_no_new_privs(true)?;
    if let Err(error) = clear_ambient_capability_set() {
        debug!(%error, "this kernel has no ambient capabilities");
    }
    let had = capabilities(None)?.permitted;
    // First cleared from the effective set only, so that they can be restored.
    set_capabilities(None, sets(CapabilitySet::empty(), had))?;
    let kept = if can_count() {
        CapabilitySet::empty()
    } else {
        had & CapabilitySet::BPF
    };
    if let Err(error) = set_capabilities(None, sets(kept, kept)) {
        set_capabilities(None, sets(had, had))?;
        return Err(error.into());
    }
    if kept.is_empty() {
        info!("all capabilities are dropped");
    } else {
        warn!("CAP_BPF is kept because this kernel requires it to read the counters; the others are dropped");
    }
    Ok(())
}

const fn sets(effective: CapabilitySet, permitted: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective,
        permitted,
        inheritable: CapabilitySet::empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Runs on a thread of its own, so that the other tests keep their capabilities.
    fn left(can_count: bool) -> (CapabilitySets, CapabilitySet) {
        let body = move || {
            let had = capabilities(None).unwrap().permitted;
            give_up(|| {
                assert!(
                    capabilities(None).unwrap().effective.is_empty(),
                    "it runs without any"
                );
                can_count
            });
            (capabilities(None).unwrap(), had)
        };
        thread::spawn(body).join().unwrap()
    }

    #[test]
    fn all_capabilities_are_dropped_if_counting_needs_none() {
        let (left, _) = left(true);
        assert_eq!(left, sets(CapabilitySet::empty(), CapabilitySet::empty()));
    }

    #[test]
    fn cap_bpf_is_kept_if_reading_maps_needs_it_and_it_was_permitted() {
        let (left, had) = left(false);
        let kept = had & CapabilitySet::BPF;
        assert_eq!(left, sets(kept, kept));
    }
}

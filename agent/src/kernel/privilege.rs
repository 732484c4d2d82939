//! Drops the agent's capabilities once the kernel programs are attached: counting needs none. Called by `start`.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};
use tracing::{debug, info, warn};

/// Capabilities of this thread; threads that it starts from now on have no others.
///
/// To be called while the process has one thread: capabilities are each thread's own. All are given up, and with them
/// the way to get any by running a program. Before Linux 5.19 the kernel may refuse to read maps without CAP_BPF;
/// `can_count` tells, and that one is kept then.
pub fn give_up(can_count: impl FnOnce() -> bool) {
    if let Err(error) = give_up_all(can_count) {
        warn!(%error, "cannot drop capabilities; the agent keeps those it was started with");
    }
}

fn give_up_all(can_count: impl FnOnce() -> bool) -> io::Result<()> {
    set_no_new_privs(true)?;
    if let Err(error) = clear_ambient_capability_set() {
        debug!(%error, "this kernel has no ambient capabilities");
    }
    let had = capabilities(None)?.permitted;
    // First only set aside, so that they can be had back.
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
        info!("all capabilities are given up");
    } else {
        warn!("the kernel requires CAP_BPF to read the counters: it is kept, the others are dropped");
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

    /// On a thread of its own: the other tests keep what they have.
    fn left(can_count: bool) -> (CapabilitySets, CapabilitySet) {
        let body = move || {
            let had = capabilities(None).unwrap().permitted;
            give_up(|| {
                assert!(
                    capabilities(None).unwrap().effective.is_empty(),
                    "it is asked without any"
                );
                can_count
            });
            (capabilities(None).unwrap(), had)
        };
        thread::spawn(body).join().unwrap()
    }

    #[test]
    fn nothing_is_kept_where_counting_needs_nothing() {
        let (left, _) = left(true);
        assert_eq!(left, sets(CapabilitySet::empty(), CapabilitySet::empty()));
    }

    #[test]
    fn the_right_to_read_maps_is_kept_where_the_kernel_asks_for_it_and_it_was_there() {
        let (left, had) = left(false);
        let kept = had & CapabilitySet::BPF;
        assert_eq!(left, sets(kept, kept));
    }
}

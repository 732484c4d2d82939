//! `DriverMismatch` warns if pods are bound to this node and no pod has a process in its cgroup for a minute: the container
//! runtime has another cgroup driver than the kubelet. `Decider` calls it.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::estimate::PodRequest;
use tracing::warn;

use crate::{
    gather::Sample,
    sample::{cgroup::KubepodsPlace, clock::nanoseconds},
};

/// Time after which empty cgroups are reported. The first pod of a node may wait for its volumes before it has processes.
const EMPTY_FOR: Duration = Duration::from_secs(60);

/// Since when the cgroups have been empty.
#[derive(Debug, Default)]
pub(super) struct DriverMismatch {
    since_ns: Option<u64>,
    pub(super) is_reported: bool,
}

impl DriverMismatch {
    pub(super) fn observe(&mut self, sample: &Sample, bound: Option<&BTreeMap<String, PodRequest>>) {
        if let Some(warning) = self.new_warning(sample, bound) {
            warn!("{warning}");
        }
    }

    fn new_warning(
        &mut self,
        sample: &Sample,
        bound: Option<&BTreeMap<String, PodRequest>>,
    ) -> Option<String> {
        let empty = sample.empty_pods.as_ref()?;
        // Cgroups may outlive their pods.
        let pods = bound.map_or(0, |bound| {
            empty.iter().filter(|uid| bound.contains_key(*uid)).count()
        });
        if pods == 0 {
            *self = Self::default();
            return None;
        }
        let now = sample.at.monotonic_ns;
        let since = *self.since_ns.get_or_insert(now);
        let is_due = now.saturating_sub(since) >= nanoseconds(EMPTY_FOR);
        if !is_due || std::mem::replace(&mut self.is_reported, true) {
            return None;
        }
        let KubepodsPlace { path, driver, .. } = sample.kubepods.as_deref()?;
        Some(format!(
            "{pods} pods are bound to this node, and no cgroup of a pod in {} has had a process for {} s: the kubelet's \
             cgroup driver is {}, and the container runtime probably has another one; pods are not measured until both \
             have the same driver",
            path.display(),
            EMPTY_FOR.as_secs(),
            driver.as_str(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::fixtures::sample;

    /// Quarters of a second in a second.
    const SECOND: u64 = 4;

    fn checked(seconds: u64, empty: Option<&[&str]>) -> Sample {
        let uids = |uids: &[&str]| uids.iter().map(|&uid| uid.to_owned()).collect();
        Sample {
            empty_pods: empty.map(uids),
            ..sample(seconds * SECOND, 100)
        }
    }

    fn bound(uids: &[&str]) -> BTreeMap<String, PodRequest> {
        uids.iter()
            .map(|&uid| (uid.to_owned(), PodRequest::default()))
            .collect()
    }

    #[test]
    fn bound_pods_without_processes_for_a_minute_are_reported_once_with_the_driver() {
        let mut mismatch = DriverMismatch::default();
        let bound = bound(&["a", "b", "elsewhere"]);
        let mut warning = |seconds, empty| mismatch.new_warning(&checked(seconds, empty), Some(&bound));
        let both: Option<&[&str]> = Some(&["a", "b", "gone"]);
        for seconds in [10, 25, 40, 55] {
            assert_eq!(warning(seconds, both), None, "{seconds}");
        }
        assert_eq!(warning(71, None), None, "not checked");
        let reported = warning(85, both).unwrap();
        for part in [
            "2 pods",
            "/sys/fs/cgroup/kubepods.slice",
            "60 s",
            "cgroup driver is systemd",
        ] {
            assert!(reported.contains(part), "{reported}");
        }
        assert_eq!(warning(100, both), None, "it lasts");
        assert_eq!(warning(115, Some(&[])), None, "a pod runs");
        assert_eq!(warning(130, both), None);
        assert_eq!(warning(175, both), None);
        assert!(warning(190, both).is_some(), "again for a minute");
    }

    #[test]
    fn empty_cgroups_of_pods_that_are_not_bound_are_no_mismatch() {
        let other = bound(&["other"]);
        for bound in [None, Some(&other)] {
            let mut mismatch = DriverMismatch::default();
            for seconds in [0, 100, 200] {
                assert_eq!(
                    mismatch.new_warning(&checked(seconds + 1, Some(&["a"])), bound),
                    None
                );
            }
        }
    }
}

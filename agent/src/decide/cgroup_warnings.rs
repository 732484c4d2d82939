//! `CgroupWarnings` logs one warning when a cgroup anomaly starts: no kubepods, a second tree of pods, too many pods, or
//! unreadable pod UIDs.
//! `SampleMetrics` calls it; gauges and `/status` go on counting the anomaly.

use std::collections::BTreeSet;

use tracing::warn;

use crate::{
    gather::{PodFrame, Sample},
    sample::cgroup::{KubepodsPlace, MAX_PODS},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CgroupAnomaly {
    NoKubepods,
    SecondTree,
    UntrackedPods,
    UnreadablePods,
}

/// The anomalies of the last sample that had a reading.
#[derive(Debug, Default)]
pub(super) struct CgroupWarnings {
    known: BTreeSet<CgroupAnomaly>,
}

impl CgroupWarnings {
    pub(super) fn observe(&mut self, sample: &Sample) {
        for warning in self.new_warnings(sample.kubepods.as_deref(), sample.pods.as_ref()) {
            warn!("{warning}");
        }
    }

    fn new_warnings(&mut self, kubepods: Option<&KubepodsPlace>, pods: Option<&PodFrame>) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |anomaly, is: bool, warning: &dyn Fn() -> String| {
            if !is {
                self.known.remove(&anomaly);
            } else if self.known.insert(anomaly) {
                found.push(warning());
            }
        };
        note(CgroupAnomaly::NoKubepods, kubepods.is_none(), &|| {
            "cgroup kubepods does not exist: no pod is measured and all count with their full \
             request; check that the host's cgroups are mounted at --cgroup-root, and that a kubelet \
             runs here"
                .to_owned()
        });
        if let Some(place) = kubepods {
            note(CgroupAnomaly::SecondTree, !place.leftovers.is_empty(), &|| {
                second_tree(place)
            });
        }
        if let Some(PodFrame {
            untracked,
            unreadable,
            ..
        }) = pods
        {
            note(CgroupAnomaly::UntrackedPods, *untracked > 0, &|| {
                format!(
                    "{untracked} pods beyond the limit of {MAX_PODS} count with their full request; \
                     spread them over more nodes to have them measured"
                )
            });
            note(CgroupAnomaly::UnreadablePods, *unreadable > 0, &|| {
                format!(
                    "{unreadable} cgroups in kubepods are named like a pod's and have no readable \
                     UID: such pods count with their full request; please report the names"
                )
            });
        }
        found
    }
}

fn second_tree(place: &KubepodsPlace) -> String {
    let KubepodsPlace {
        path,
        driver,
        leftovers,
    } = place;
    let leftovers = leftovers.iter().map(|path| path.display().to_string());
    format!(
        "next to {used} there is {}: only pods in {used} are measured, because it has most running pods (cgroup \
         driver {driver}); the other tree is probably left over from another cgroup driver of the kubelet, and a \
         restart of the machine removes it",
        leftovers.collect::<Vec<_>>().join(", "),
        used = path.display(),
        driver = driver.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::fixtures::kubepods;

    #[test]
    fn an_anomaly_warns_when_it_starts_and_when_it_recurs() {
        let mut warnings = CgroupWarnings::default();
        let pods = |untracked, unreadable| PodFrame {
            untracked,
            unreadable,
            ..PodFrame::default()
        };
        let place = kubepods(&[]);
        let mut said = |has_kubepods: bool, pods: Option<PodFrame>| -> Vec<String> {
            let place = has_kubepods.then_some(&place);
            let found = warnings.new_warnings(place, pods.as_ref()).into_iter();
            let first_words = |text: String| text.split(' ').take(3).collect::<Vec<_>>().join(" ");
            found.map(first_words).collect()
        };
        assert_eq!(said(false, None), ["cgroup kubepods does"]);
        assert_eq!(said(false, Some(pods(0, 0))), [""; 0], "it lasts");
        assert_eq!(said(true, None), [""; 0]);
        assert_eq!(said(true, Some(pods(3, 0))), ["3 pods beyond"]);
        assert_eq!(
            said(true, Some(pods(4, 2))),
            ["2 cgroups in"],
            "more of the same is nothing new"
        );
        assert_eq!(said(true, None), [""; 0], "no frame ended");
        assert_eq!(said(true, Some(pods(0, 2))), [""; 0]);
        assert_eq!(
            said(false, Some(pods(1, 0))),
            ["cgroup kubepods does", "1 pods beyond"]
        );
    }

    #[test]
    fn second_tree_of_pods_is_named_once_with_the_one_that_counts() {
        let mut warnings = CgroupWarnings::default();
        let (alone, both) = (kubepods(&[]), kubepods(&["/sys/fs/cgroup/kubepods"]));
        assert_eq!(warnings.new_warnings(Some(&alone), None), [""; 0]);
        let found = warnings.new_warnings(Some(&both), None);
        let [warning] = found.as_slice() else {
            panic!("{found:?}");
        };
        for part in [
            "/sys/fs/cgroup/kubepods.slice",
            " /sys/fs/cgroup/kubepods:",
            "driver systemd",
        ] {
            assert!(warning.contains(part), "{warning}");
        }
        assert_eq!(warnings.new_warnings(Some(&both), None), [""; 0], "it lasts");
        assert_eq!(warnings.new_warnings(Some(&alone), None), [""; 0]);
        assert_eq!(warnings.new_warnings(Some(&both), None).len(), 1);
    }
}

//! `CgroupWarnings` logs one warning when a cgroup anomaly starts: no kubepods, too many pods, or unreadable pod UIDs.
//! `SampleMetrics` calls it; gauges and `/status` go on counting the anomaly.

use tracing::warn;

use crate::{
    gather::{PodFrame, Sample},
    sample::cgroup::MAX_PODS,
};

/// The anomalies of the last sample that had a reading.
#[derive(Debug, Default)]
pub(super) struct CgroupWarnings {
    is_without_kubepods: bool,
    has_untracked: bool,
    has_unreadable: bool,
}

impl CgroupWarnings {
    pub(super) fn observe(&mut self, sample: &Sample) {
        for warning in self.new_warnings(sample.has_kubepods, sample.pods.as_ref()) {
            warn!("{warning}");
        }
    }

    fn new_warnings(&mut self, has_kubepods: bool, pods: Option<&PodFrame>) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |was: &mut bool, is: bool, warning: &dyn Fn() -> String| {
            if is && !*was {
                found.push(warning());
            }
            *was = is;
        };
        note(&mut self.is_without_kubepods, !has_kubepods, &|| {
            "cgroup kubepods does not exist: no pod is measured and all count with their full \
             request; check that the host's cgroups are mounted at --cgroup-root, and that a kubelet \
             runs here"
                .to_owned()
        });
        if let Some(PodFrame {
            untracked,
            unreadable,
            ..
        }) = pods
        {
            note(&mut self.has_untracked, *untracked > 0, &|| {
                format!(
                    "{untracked} pods beyond the limit of {MAX_PODS} count with their full request; \
                     spread them over more nodes to have them measured"
                )
            });
            note(&mut self.has_unreadable, *unreadable > 0, &|| {
                format!(
                    "{unreadable} cgroups in kubepods are named like a pod's and have no readable \
                     UID: such pods count with their full request; please report the names"
                )
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anomaly_warns_when_it_starts_and_when_it_recurs() {
        let mut warnings = CgroupWarnings::default();
        let pods = |untracked, unreadable| PodFrame {
            untracked,
            unreadable,
            ..PodFrame::default()
        };
        let mut said = |has_kubepods: bool, pods: Option<PodFrame>| -> Vec<String> {
            let found = warnings.new_warnings(has_kubepods, pods.as_ref()).into_iter();
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
}

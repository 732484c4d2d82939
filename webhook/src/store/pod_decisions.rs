//! [`PodDecisions`]: the last reviews of pods with their changes and reasons, for debug queries.
//!
//! They are bounded in number and in bytes, for any pod: a decision contains only shortened changes and reasons.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use headroom_rules::explain::Explanation;

use crate::store::caller::ReviewCaller;

/// Most reviews that are kept.
pub const MOST_DECISIONS: usize = 1_000;
/// Most memory of all of them, in bytes. One takes about 1 KiB, and 24 KiB at most.
pub const MOST_BYTES: usize = 4 << 20;

/// Most reasons of a decision.
const MOST_REASONS: usize = 16;
/// Longest text of a decision, in bytes.
const LONGEST_TEXT: usize = 256;
/// Memory of a decision besides its texts, in bytes.
const DECISION_BYTES: usize = 512;

/// Length of the suffix that Kubernetes adds to a generated name, in bytes.
const GENERATED: usize = 5;
/// The longest beginning of such a name, in bytes.
const LONGEST_PREFIX: usize = 58;

/// Decision about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDecision {
    /// Time by this replica's clock.
    pub at: SystemTime,
    /// The endpoint that was asked.
    pub endpoint: &'static str,
    /// Operation of the review.
    pub operation: &'static str,
    pub pod: ReviewedPod,
    /// The UID of the review.
    pub review: String,
    /// True if nothing was to be stored.
    pub is_dry_run: bool,
    /// Client that posted the review.
    pub caller: ReviewCaller,
    /// Outcome of the review: `allowed`, `denied` or `failed`.
    pub outcome: &'static str,
    /// Reasons of a refusal, field by field if rules name fields.
    pub reasons: Vec<String>,
    /// Changes of the pod with their reasons.
    pub explanation: Explanation,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewedPod {
    pub namespace: String,
    /// Its name; empty while it has none.
    pub name: String,
    /// Prefix of a name that the API server generates later.
    pub generate_name: String,
    /// Its UID; empty while it has none.
    pub uid: String,
    /// The subresource that was written; empty for the pod.
    pub sub_resource: String,
}

/// The last decisions of this replica.
#[derive(Debug, Default)]
pub struct PodDecisions {
    kept: Mutex<KeptDecisions>,
}

#[derive(Debug, Default)]
struct KeptDecisions {
    decisions: VecDeque<Arc<PodDecision>>,
    bytes: usize,
}

impl PodDecisions {
    /// Keeps a decision, and drops the oldest ones beyond the limit: those of unverified callers first, who can post any
    /// number of reviews.
    pub fn record(&self, mut decision: PodDecision) {
        decision.shorten();
        let bytes = decision.bytes();
        let decision = Arc::new(decision);
        let mut old = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.decisions.push_back(decision);
        kept.bytes = kept.bytes.saturating_add(bytes);
        while kept.decisions.len() > MOST_DECISIONS || kept.bytes > MOST_BYTES {
            let mut decisions = kept.decisions.iter();
            let unverified = decisions.position(|decision| decision.caller == ReviewCaller::Unverified);
            let Some(oldest) = kept.decisions.remove(unverified.unwrap_or_default()) else {
                break;
            };
            kept.bytes = kept.bytes.saturating_sub(oldest.bytes());
            old.push(oldest);
        }
        drop(kept);
        // Memory is freed outside the lock.
        drop(old);
    }

    /// The decisions about a pod, the newest first, with those about pods that had no name yet and may have got this one.
    pub fn of_pod(&self, namespace: &str, name: &str) -> Vec<Arc<PodDecision>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = kept.decisions.iter().rev();
        let found = newest.filter(|decision| decision.pod.may_be(namespace, name));
        found.map(Arc::clone).collect()
    }

    /// Number of kept decisions, and the time of the oldest one.
    pub fn kept(&self) -> (usize, Option<SystemTime>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = kept.decisions.front().map(|decision| decision.at);
        (kept.decisions.len(), oldest)
    }
}

impl ReviewedPod {
    /// True if the pod has that name, or had none and may have got it.
    fn may_be(&self, namespace: &str, name: &str) -> bool {
        if self.namespace != namespace {
            return false;
        }
        if !self.name.is_empty() {
            return self.name == name;
        }
        let prefix = &self.generate_name;
        let prefix = prefix
            .get(..prefix.floor_char_boundary(LONGEST_PREFIX))
            .unwrap_or_default();
        let generated = name.strip_prefix(prefix).filter(|_| !prefix.is_empty());
        generated.is_some_and(|rest| rest.is_empty() || rest.len() == GENERATED)
    }
}

impl PodDecision {
    /// Shortens texts that a client chose.
    fn shorten(&mut self) {
        let ReviewedPod {
            namespace,
            name,
            generate_name,
            uid,
            sub_resource,
        } = &mut self.pod;
        self.reasons.truncate(MOST_REASONS);
        self.explanation.shrink();
        let of_pod = [
            namespace,
            name,
            generate_name,
            uid,
            sub_resource,
            &mut self.review,
        ];
        for text in of_pod.into_iter().chain(&mut self.reasons) {
            text.truncate(text.floor_char_boundary(LONGEST_TEXT));
            text.shrink_to_fit();
        }
    }

    fn bytes(&self) -> usize {
        let ReviewedPod {
            namespace,
            name,
            generate_name,
            uid,
            sub_resource,
        } = &self.pod;
        let texts = [namespace, name, generate_name, uid, sub_resource, &self.review];
        let texts = texts
            .into_iter()
            .chain(&self.reasons)
            .map(String::len)
            .sum::<usize>();
        DECISION_BYTES + texts + self.explanation.bytes()
    }
}

#[cfg(test)]
mod tests {
    use headroom_rules::explain::VerdictKind;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn decision(name: &str, generate_name: &str) -> PodDecision {
        PodDecision {
            at: SystemTime::UNIX_EPOCH,
            endpoint: "mutate-pod",
            operation: "CREATE",
            pod: ReviewedPod {
                namespace: "n".to_owned(),
                name: name.to_owned(),
                generate_name: generate_name.to_owned(),
                ..ReviewedPod::default()
            },
            review: "r".to_owned(),
            is_dry_run: false,
            caller: ReviewCaller::Verified,
            outcome: "allowed",
            reasons: Vec::new(),
            explanation: Explanation::default(),
        }
    }

    #[test]
    fn last_thousand_decisions_are_kept_newest_first() {
        let decisions = PodDecisions::default();
        for number in 0..=MOST_DECISIONS {
            let name = format!("p{}", number.min(1));
            decisions.record(PodDecision {
                review: number.to_string(),
                ..decision(&name, "")
            });
        }
        assert_eq!(decisions.kept(), (MOST_DECISIONS, Some(SystemTime::UNIX_EPOCH)));
        assert_eq!(
            decisions.of_pod("n", "p0"),
            [],
            "the 1,001st pushed the first out"
        );
        let found = decisions.of_pod("n", "p1");
        assert_eq!(found.len(), MOST_DECISIONS);
        assert_eq!(
            (found[0].review.as_str(), found[999].review.as_str()),
            ("1000", "1")
        );
    }

    #[test]
    fn reviews_of_unverified_callers_push_out_no_other() {
        let decisions = PodDecisions::default();
        decisions.record(decision("real", ""));
        for number in 0..2 * MOST_DECISIONS {
            decisions.record(PodDecision {
                caller: ReviewCaller::Unverified,
                review: number.to_string(),
                ..decision("forged", "")
            });
        }
        assert_eq!(decisions.of_pod("n", "real").len(), 1);
        for _ in 0..MOST_DECISIONS {
            decisions.record(decision("real", ""));
        }
        assert_eq!(decisions.of_pod("n", "forged"), []);
        assert_eq!(decisions.kept().0, MOST_DECISIONS);
    }

    /// Everything that a client may choose is as long as can be.
    fn hostile(number: usize) -> PodDecision {
        let long = "x".repeat(1 << 20);
        let mut explanation = Explanation::default();
        let labels: serde_json::Map<String, Value> = (0..2_000)
            .map(|label| (format!("{label}{}", "k".repeat(200)), json!(long[..2_000])))
            .collect();
        explanation.note_change(&["metadata", "labels"], &Value::Null, &Value::Object(labels));
        for profile in 0..500 {
            explanation.note_profile(&format!("p{profile}"), VerdictKind::Failed, |why| {
                why.write_str(&long[..2_000])
            });
        }
        PodDecision {
            review: format!("{number}{long}"),
            reasons: vec![long.clone(); 100],
            explanation,
            ..decision(&long, &long)
        }
    }

    #[test]
    fn whatever_is_in_pods_their_decisions_take_four_mebibytes() {
        let decisions = PodDecisions::default();
        for number in 0..250 {
            decisions.record(hostile(number));
        }
        let kept = decisions.kept.lock().unwrap();
        let bytes = kept
            .decisions
            .iter()
            .map(|decision| decision.bytes())
            .sum::<usize>();
        assert_eq!(kept.bytes, bytes);
        assert!(bytes <= MOST_BYTES, "{bytes}");
        assert!(
            (150..250).contains(&kept.decisions.len()),
            "{}",
            kept.decisions.len()
        );
        let texts = format!("{:?}", kept.decisions.back().unwrap());
        assert!(texts.len() < 64 << 10, "{}", texts.len());
    }

    #[rstest]
    #[case("web-1", "", "web-1", true)]
    #[case("web-1", "", "web-2", false)]
    #[case("", "web-", "web-x7k2p", true)]
    #[case("", "web-", "web-", true)]
    #[case("", "web-", "web-x7k2", false)]
    #[case("", "web-", "other", false)]
    #[case("", "", "x7k2p", false)]
    fn a_pod_is_found_by_its_name_or_by_the_beginning_of_one(
        #[case] name: &str,
        #[case] generate_name: &str,
        #[case] asked: &str,
        #[case] is_found: bool,
    ) {
        let decisions = PodDecisions::default();
        decisions.record(decision(name, generate_name));
        assert_eq!(decisions.of_pod("n", asked).len(), usize::from(is_found));
        assert_eq!(decisions.of_pod("m", asked), []);
    }

    #[test]
    fn a_long_beginning_of_a_name_is_cut_as_kubernetes_cuts_it() {
        let long = "a".repeat(80);
        let decisions = PodDecisions::default();
        decisions.record(decision("", &long));
        assert_eq!(decisions.of_pod("n", &format!("{}x7k2p", &long[..58])).len(), 1);
    }
}

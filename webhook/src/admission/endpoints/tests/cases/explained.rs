//! Each case of `/mutate-pod` by the rules alone, as `kubectl headroom pod explain` runs them: the pod and the
//! explanation equal those of the review.

use headroom_rules::{
    completion::{CompletionError, complete},
    pod_object::PlainPod,
    profile::{CreatedObject, ProfileRules, ProfileStop, ProfileTarget},
};

use super::*;

impl CaseRun<'_> {
    /// True if the rules alone answer such a case: a new pod of a user in no group, gates at their defaults.
    fn is_offline(&self) -> bool {
        let is_new = self.section.endpoint == "mutate-pod" && self.row.operation == "CREATE";
        is_new
            && self.row.gates.is_empty()
            && self.row.groups.is_empty()
            && self.row.resource(self.section) == "pods"
    }

    /// Compares the result of the rules with the webhook's result and its kept explanation.
    pub(super) fn check_explanation(&self, stores: &Stores, sent: &Value, made: &Value) {
        if !self.is_offline() || sent["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let uid = self.row.uid();
        let namespace = self
            .row
            .namespace
            .as_deref()
            .or(sent["metadata"]["namespace"].as_str());
        let namespace = namespace.unwrap_or_default();
        let profiles = stores.colocation.profiles.profiles();
        let labels = serde_json::from_value(sent["metadata"]["labels"].clone()).unwrap_or_default();
        let created = CreatedObject {
            target: ProfileTarget::Pod,
            review: Some(&uid),
            namespace,
            labels,
            namespace_labels: stores.colocation.profiles.namespace(namespace),
        };
        let rules = ProfileRules {
            profiles: &profiles,
            class: &|name| stores.colocation.profiles.priority_class(name),
            switches: &self.switches,
        };
        let case = &self.row.id;
        let mut pod = PlainPod::new(sent.clone());
        let completed = complete(&mut pod, &created, rules);
        let name = sent["metadata"]["name"].as_str().unwrap_or_default();
        let decisions = stores.decisions.of_pod(namespace, name);
        let [decision] = decisions.as_slice() else {
            panic!("{case}: {decisions:?}");
        };
        if let Err(error) = completed {
            let is_refused = matches!(error, CompletionError::Profile(ProfileStop::Object(_)));
            let outcome = if is_refused { "denied" } else { "failed" };
            assert_eq!(decision.outcome, outcome, "{case}: {error}");
            return;
        }
        assert_eq!(&pod.object, made, "{case}");
        assert_eq!(pod.explanation, decision.explanation, "{case}");
        // A later profile may restore the value that an earlier one changed.
        assert!(sent == made || !pod.explanation.writes().is_empty(), "{case}");
    }
}

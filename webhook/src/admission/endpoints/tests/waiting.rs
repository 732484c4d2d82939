//! Tests of waiting: a review waits only for an object on which its answer depends.

use std::time::{Duration, Instant};

use headroom_rules::{
    binding::{Lists, Settings},
    profile::{KnownProfile, PriorityClass},
    switch::Switches,
};
use tokio::sync::watch;

use super::{review::ReviewBuilder, *};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{Colocation, StepContext},
        review::decode,
        shadow::Shadow,
    },
    store::{
        arrivals::Arrivals,
        by_name::Listing,
        fluid::{FluidObjects, FluidSources},
        informer::Store as _,
        known::KnownSources,
        lookup::{PodKeys, PodLookup, ProfileLookup},
        sources,
    },
};

/// AgedProfiles of one age, whose classes and namespaces are not known.
struct AgedProfiles(Arc<Listing<KnownProfile>>);

impl AgedProfiles {
    fn new(spec: &Value, age: Duration) -> Self {
        let mut known = KnownProfile::read(&spec.to_string(), None);
        known.since = Instant::now().checked_sub(age);
        Self(Arc::new(Listing::from([("p".into(), Arc::new(known))])))
    }
}

impl ProfileLookup for AgedProfiles {
    fn profiles(&self) -> Arc<Listing<KnownProfile>> {
        Arc::clone(&self.0)
    }

    fn namespace(&self, name: &str) -> Option<Arc<Labels>> {
        (name == "known").then(Arc::default)
    }

    fn priority_class(&self, _name: &str) -> Option<Arc<PriorityClass>> {
        None
    }
}

/// One pod, `known/bypassed`, with the label that bypasses the rule of bindings.
struct BypassedPods;

impl PodLookup for BypassedPods {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>> {
        let labels = BTreeMap::from([(
            "koordinator.sh/binding-admission-bypass".to_owned(),
            String::new(),
        )]);
        let keys = || PodKeys {
            labels,
            ..PodKeys::default()
        };
        (namespace == "known" && name == "bypassed").then(|| Arc::new(keys()))
    }
}

fn colocation(profiles: AgedProfiles, binding: Settings) -> Stores {
    let stores = Stores::default();
    Stores {
        colocation: Colocation {
            pods: Arc::new(BypassedPods),
            profiles: Arc::new(profiles),
            binding,
            ..stores.colocation.clone()
        },
        ..stores
    }
}

/// True if the review waits.
fn is_awaiting(path: &str, review: &str, stores: &Stores) -> bool {
    let features = Features::with_gates(GateSet::parse(gates(), "").unwrap());
    let context = StepContext {
        stores,
        gates: &features.gates,
        switches: &Switches::default(),
        shadow: &Shadow::default(),
        now: Timestamp::UNIX_EPOCH,
    };
    let review = decode(review.as_bytes()).unwrap();
    let draft = Draft::new(review.object.unwrap(), None);
    let endpoint = ENDPOINTS
        .iter()
        .find(|endpoint| endpoint.declaration().path == path);
    endpoint.unwrap().is_awaiting(&context, &review.request, &draft)
}

fn awaits_profile(spec: &Value, age: u64, namespace: &str) -> bool {
    let profiles = AgedProfiles::new(spec, Duration::from_secs(age));
    let pod = json!({"kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": {}});
    let review = ReviewBuilder::create("pods", &pod).build();
    is_awaiting("/mutate-pod", &review, &colocation(profiles, Settings::default()))
}

#[test]
fn a_pod_waits_for_the_class_of_a_young_profile_only() {
    let spec = json!({"priorityClassName": "late"});
    assert!(awaits_profile(&spec, 4, "known"));
    assert!(!awaits_profile(&spec, 5, "known"));
}

#[test]
fn a_pod_waits_only_for_a_profile_that_would_be_applied() {
    for (spec, is_awaited) in [
        (json!({"priorityClassName": "late"}), true),
        (json!({"priorityClassName": "late", "probability": 0}), false),
        (
            json!({"priorityClassName": "late", "labels": {"a": "my team!"}}),
            false,
        ),
        (
            json!({"priorityClassName": "late", "selector": {"matchLabels": {"a": "b"}}}),
            false,
        ),
    ] {
        assert_eq!(awaits_profile(&spec, 0, "known"), is_awaited, "{spec}");
    }
    let mut spec = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}, "labels": {"a": "b"}});
    assert!(awaits_profile(&spec, 60, "unknown"));
    spec["probability"] = json!(0);
    assert!(!awaits_profile(&spec, 60, "unknown"));
}

fn awaits_pod(user: &str, namespace: &str, name: &str) -> bool {
    let lists = Lists {
        users: "binder",
        namespaces: "known",
        excluded_namespaces: "kube-system",
        ..Lists::default()
    };
    let binding = json!({"kind": "Binding", "metadata": {"name": name, "namespace": namespace}});
    let review = ReviewBuilder::create("pods/binding", &binding)
        .user(user, &[])
        .build();
    let profiles = AgedProfiles::new(&json!({}), Duration::ZERO);
    let stores = colocation(profiles, Settings::parse(&lists, false));
    is_awaiting("/validate-pod-binding", &review, &stores)
}

#[test]
fn a_binding_waits_for_its_pod_only_if_the_decision_depends_on_it() {
    assert!(awaits_pod("other", "known", "new"));
    assert!(
        awaits_pod("not-a-binder", "known", "new"),
        "a part of the name is not enough"
    );
    assert!(!awaits_pod("binder", "known", "new"), "the user is listed");
    assert!(
        !awaits_pod("other", "kube-system", "new"),
        "the namespace is excluded"
    );
    assert!(
        !awaits_pod("other", "elsewhere", "new"),
        "the namespace is not listed"
    );
    assert!(
        !awaits_pod("other", "known", "bypassed"),
        "the pod has a bypass key"
    );
}

/// True if a pod with this claim waits; claims, Datasets and runtimes are known as far as the objects have sources.
fn awaits_data(objects: &FluidObjects, labels: &Value, claim: &str) -> bool {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let pod = json!({
        "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "labels": labels}, "spec": {"volumes": [volume]},
    });
    let review = ReviewBuilder::create("pods", &pod).build();
    let stores = Stores {
        fluid: Arc::new(objects.clone()),
        ..Stores::default()
    };
    is_awaiting("/mutate-fluid-io-v1alpha1-schedulepod", &review, &stores)
}

#[test]
fn a_pod_waits_for_missing_claims_and_not_for_fluid_to_bind_them() {
    let known = KnownSources::default();
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    let stores = FluidSources::new(&Arrivals::default());
    for name in ["plain", "unbound", "lost"] {
        let labels = match name {
            "plain" => json!({}),
            _ => json!({"fluid.io/s-x": "true"}),
        };
        let claim = json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}});
        stores.claims.apply(serde_json::from_value(claim).unwrap());
    }
    let dataset = json!({"metadata": {"namespace": "ns", "name": "unbound"}});
    let dataset = serde_json::from_str(&dataset.to_string()).unwrap();
    stores.datasets.apply(dataset);
    let objects = FluidObjects {
        sources: stores.clone(),
        known,
    };
    let labels = json!({"fuse.serverful.fluid.io/inject": "true"});
    for (claim, is_awaited) in [
        ("late", true),
        ("lost", true),
        ("plain", false),
        ("unbound", false),
    ] {
        assert_eq!(awaits_data(&objects, &labels, claim), is_awaited, "{claim}");
    }
    assert!(!awaits_data(&objects, &json!({}), "late"), "it did not opt in");
    let unknown = FluidObjects {
        known: KnownSources::default(),
        ..objects
    };
    assert!(!awaits_data(&unknown, &labels, "late"), "nothing is known");
}

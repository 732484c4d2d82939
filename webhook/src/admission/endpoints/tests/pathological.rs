//! Tests that the size of a review bounds its memory and work, for any content.

#[path = "../../../../../crates/testbed/src/pathological.rs"]
#[expect(
    unreachable_pub,
    reason = "a file of the testbed, which depends on this crate"
)]
mod shapes;

use allocation_counter::AllocationInfo;
use headroom_rules::{
    SWITCHES,
    binding::{Lists, Settings},
    fluid::{
        dataset::{Catalog, Claim, Dataset, UnknownObjects},
        plugins::PluginProfile,
        runtime::{Runtime, RuntimeKind},
    },
    switch::{Compat, Switches},
};
use tokio::sync::watch;

use self::shapes::{BodyShape, GATES, Target, shapes, targets};
use super::*;
use crate::{
    admission::{draft::take_passed, endpoint::Colocation},
    store::{
        arrivals::Arrivals,
        by_name::Listing,
        colocation::{profile_sources::ProfileSources, profiles::Profiles},
        informer::Store as _,
        known::KnownSources,
        lookup::FluidLookup,
        sources,
    },
};

/// A body that is posted, in bytes.
const BODY: usize = 3_000_000;
/// Maximum cost of an answer, for any body.
const MOST: Cost = Cost {
    bytes: 16 << 20,
    allocations: 50_000,
    passes: 8,
};
/// Maximum cost for pods to which a profile is applied: the review is scanned once, the profile changes the whole
/// pod, two steps read the spec, one changes a list in it, and the patch compares, each after counting the values; a
/// step reads the values that an earlier step wrote. The object exists twice while a profile changes it.
const MOST_OF_PODS: Cost = Cost {
    passes: 13,
    allocations: 65_000,
    ..MOST
};
/// Maximum cost of pods with data of Fluid: the review is scanned once, and each of six steps reads the volumes after counting
/// their values. Most allocations are those of the Datasets, which the test makes for each step.
const MOST_OF_FLUID: Cost = Cost {
    passes: 13,
    allocations: 200_000,
    ..MOST
};
/// Bytes and allocations for a byte of a small quota: one of many resources is refused for each of them.
const OF_A_QUOTA: (u64, u64) = (48, 2);
/// Bytes and allocations for a byte of a document under a key of Koordinator's ConfigMap. Empty entries cost the most.
const OF_A_TEXT: (u64, u64) = (110, 4);

#[derive(Debug, Clone, Copy)]
struct Cost {
    /// The most memory at a time, besides the body, in bytes.
    bytes: u64,
    allocations: u64,
    /// Number of times that a byte of the body is read.
    passes: usize,
}

#[test]
fn review_memory_and_work_are_bounded_by_body_size() {
    let hint = json!({
        "v": 1, "uid": "u1", "boot": "b", "seq": 1, "mode": "FULL", "timing": "production", "why": [],
        "cpu": {"pub": 150, "p": 1000, "brake": 0}, "memory": {"pub": 100, "p": 1000, "brake": 0},
    });
    let world = FixtureCluster {
        mode: Some("auto".to_owned()),
        hint: Some(hint),
        ..FixtureCluster::default()
    };
    let router = router(world);
    let mut found = Vec::new();
    for (path, sub_resource, user) in [
        ("/mutate-node-status", "status", "system:node:n1"),
        ("/validate-node", "", "somebody"),
    ] {
        for shape in shapes(sub_resource, user) {
            found.extend(excess(&router, path, &shape, BODY, &MOST));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn pods_reservations_and_bindings_cost_little_more() {
    let router = router_of_pods();
    let mut found = Vec::new();
    for target in posted_to(&[
        "/mutate-pod",
        "/mutate-reservation",
        "/validate-pod",
        "/validate-pod-binding",
    ]) {
        for shape in target.shapes() {
            found.extend(excess(&router, target.path, shape, BODY, &MOST_OF_PODS));
        }
    }
    for target in posted_to(&["/mutate-pod", "/validate-pod"]) {
        for shape in &target.own {
            // A value slightly below the width limit costs the most, and its length differs for each shape.
            for bytes in [400_000, 200_000, 100_000, 50_000, 20_000] {
                found.extend(excess(&router, target.path, shape, bytes, &MOST_OF_PODS));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn pods_with_data_of_fluid_cost_little_more() {
    let stores = Stores {
        fluid: Arc::new(AnyDataset),
        known: all_known(),
        ..Stores::default()
    };
    let router = Router::new(Options {
        stores,
        ..options(FixtureCluster::default())
    });
    let mut found = Vec::new();
    for target in posted_to(&["/mutate-fluid-io-v1alpha1-schedulepod"]) {
        for shape in target.shapes() {
            found.extend(excess(&router, target.path, shape, BODY, &MOST_OF_FLUID));
        }
        for shape in &target.own {
            for bytes in [400_000, 200_000, 100_000, 50_000, 20_000] {
                found.extend(excess(&router, target.path, shape, bytes, &MOST_OF_FLUID));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Every claim is of a Dataset whose clients need two labels.
struct AnyDataset;

impl Catalog for AnyDataset {
    fn claim(&self, _namespace: &str, name: &str) -> Result<Option<Arc<Claim>>, UnknownObjects> {
        Ok(Some(Arc::new(Claim {
            dataset: Some(name.into()),
        })))
    }

    fn dataset(&self, _namespace: &str, _name: &str) -> Result<Option<Arc<Dataset>>, UnknownObjects> {
        Ok(Some(Arc::new(Dataset {
            phase: "Bound".into(),
            runtime: "thin".into(),
            ..Dataset::default()
        })))
    }

    fn runtime(
        &self,
        _kind: RuntimeKind,
        _namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Runtime>>, UnknownObjects> {
        let labels = [
            ("x".to_owned(), "1".to_owned()),
            (format!("x-{name}"), "1".to_owned()),
        ];
        Ok(Some(Arc::new(Runtime {
            fuse_selector: BTreeMap::from(labels),
            ..Runtime::default()
        })))
    }
}

impl FluidLookup for AnyDataset {
    fn plugins(&self) -> Arc<PluginProfile> {
        Arc::default()
    }
}

#[test]
fn quotas_cost_no_more_than_nodes() {
    let gates = GateSet::parse(gates(), GATES).unwrap();
    let router = Router::new(Options {
        features: Features::with_gates(gates).shared(),
        stores: Stores {
            known: all_known(),
            ..Stores::default()
        },
        ..options(FixtureCluster::default())
    });
    let mut found = Vec::new();
    for target in posted_to(&[
        "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        "/validate-quota-koordinator-sh-v1alpha1-elasticquotaprofile",
    ]) {
        for shape in target.shapes() {
            // Annotations are read up to the length that Kubernetes stores.
            found.extend(excess(&router, target.path, shape, BODY, &MOST));
            for bytes in [20_000, 100_000, 260_000] {
                found.extend(excess(
                    &router,
                    target.path,
                    shape,
                    bytes,
                    &within(OF_A_QUOTA, bytes),
                ));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// The endpoints of pods and Reservations with all of their steps, and every source known.
fn router_of_pods() -> Router {
    let gates = GateSet::parse(gates(), GATES);
    let features = Features {
        switches: Switches::parse(SWITCHES, Compat::Headroom, "DeviceNamesContainers=true").unwrap(),
        ..Features::with_gates(gates.unwrap())
    };
    let lists = Lists {
        users: "nobody",
        namespaces: "*",
        ..Lists::default()
    };
    let stores = Stores::default();
    Router::new(Options {
        features: features.shared(),
        stores: Stores {
            colocation: Colocation {
                binding: Settings::parse(&lists, false),
                profiles: Arc::new(one_profile()),
                ..stores.colocation
            },
            known: all_known(),
            ..stores
        },
        ..options(FixtureCluster::default())
    })
}

fn all_known() -> KnownSources {
    let known = KnownSources::default();
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    known
}

/// A profile that is for every object, and writes into all parts of it.
pub(super) fn one_profile() -> ProfileSources {
    let spec = json!({
        "labels": {"x": "1"}, "annotationKeysMapping": {"a": "b"}, "labelSuffixes": {"app": "-s"}, "schedulerName": "s",
        "patch": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}},
    });
    let profile = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
    let mut listing = Listing::default();
    Profiles::list(&mut listing, serde_json::from_str(&profile).unwrap());
    let sources = ProfileSources::new(&Arrivals::default());
    sources.profiles.replace(listing);
    sources
}

#[test]
fn texts_of_koordinators_config_map_cost_in_proportion_to_their_length() {
    let known = KnownSources::default();
    known.record(&sources::NODES, watch::channel(true).1);
    let router = Router::new(Options {
        stores: Stores {
            known,
            ..Stores::default()
        },
        ..options(FixtureCluster::default())
    });
    let mut found = Vec::new();
    for target in posted_to(&["/validate-configmap"]) {
        // Texts longer than Kubernetes stores are not read.
        for shape in target.shapes() {
            found.extend(excess(&router, target.path, shape, BODY, &MOST));
        }
        for shape in &target.own {
            for bytes in [100_000, 1_000_000] {
                found.extend(excess(
                    &router,
                    target.path,
                    shape,
                    bytes,
                    &within(OF_A_TEXT, bytes),
                ));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Bodies posted to those endpoints.
fn posted_to(paths: &[&str]) -> Vec<Target> {
    let targets: Vec<Target> = targets()
        .into_iter()
        .filter(|target| paths.contains(&target.path))
        .collect();
    assert!(targets.len() >= paths.len(), "{paths:?}");
    targets
}

/// Maximum cost of a body of `bytes`, with this cost for each byte.
fn within((memory, allocations): (u64, u64), bytes: usize) -> Cost {
    Cost {
        bytes: memory * bytes as u64,
        allocations: allocations * bytes as u64,
        ..MOST
    }
}

/// Posts a body of that many bytes, and returns its cost if it exceeds a bound.
fn excess(router: &Router, path: &str, shape: &BodyShape, bytes: usize, most: &Cost) -> Option<String> {
    let endpoint = router.endpoint(path).unwrap();
    let body = shape.body(bytes);
    assert!((bytes - 150..=bytes).contains(&body.len()), "{}", shape.name);
    take_passed();
    let mut status = None;
    let AllocationInfo {
        count_total,
        bytes_max,
        ..
    } = allocation_counter::measure(|| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(600));
        let answer = router.answer(endpoint, body.as_bytes(), deadline);
        status = Some((answer.status.as_u16(), answer.decision.outcome));
    });
    let passes = take_passed().div_ceil(body.len());
    let is_bounded = bytes_max <= most.bytes && count_total <= most.allocations && passes <= most.passes;
    let name = shape.name;
    (!is_bounded).then(|| {
        format!(
            "{path} {name} in {bytes} bytes: {status:?}, {bytes_max} bytes, {count_total} allocations, {passes} passes"
        )
    })
}

//! The annotation that renames resources before a Pod is compared with its quota.

use headroom_domain::{
    amounts::Amounts,
    names,
    pod::{PodSpec, ResourceRequirements},
    quantity::Quantity,
};

/// Annotation on a Pod: `from:to` pairs; `to` may be empty.
pub const REPLACE_RESOURCES: &str = "pod.koordinator.sh/replace-resources";

/// Maximum number of pairs that are applied. An annotation has at most 256 KiB, and each pair visits all containers.
const MOST_PAIRS: usize = 64;

/// Renames resources in the requests of containers and init containers and in the overhead: first removes the
/// resources without a new name, then renames the others pair by pair. A rename is skipped if the target resource
/// already has a value. Malformed pairs and pairs after the first 64 are ignored.
pub(super) fn replace(spec: &mut PodSpec, annotation: &str) {
    let pairs = annotation.split(',').filter_map(|pair| {
        let (from, to) = pair.split_once(':').filter(|(_, to)| !to.contains(':'))?;
        Some((from.trim(), to.trim()))
    });
    let (erased, renamed): (Vec<_>, Vec<_>) = pairs.take(MOST_PAIRS).partition(|(_, to)| to.is_empty());
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    let lists = containers.flat_map(|container| {
        let ResourceRequirements { requests, limits } = &mut container.resources;
        [requests, limits]
    });
    for amounts in lists.chain([&mut spec.overhead]) {
        for (from, _) in &erased {
            amounts.remove(from);
        }
        for (from, to) in &renamed {
            rename(amounts, from, to);
        }
    }
}

/// Renames one resource; a CPU amount is converted to its number of millicores.
fn rename(amounts: &mut Amounts, from: &str, to: &str) {
    if amounts.contains(to) {
        return;
    }
    if let Some(amount) = amounts.remove(from) {
        let amount = if from == names::CPU {
            Quantity::from_whole(amount.whole_milli())
        } else {
            amount
        };
        amounts.set(to, amount);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case("cpu:example.io/cpu,memory:", json!({"cpu": "2", "memory": "4Gi"}), "example.io/cpu=2k")]
    #[case("cpu:acme.io/cpu, memory: ,bad,acme.io/x:acme.io/y", json!({"cpu": 2, "memory": "4Gi", "acme.io/x": 1}), "acme.io/cpu=2k,acme.io/y=1")]
    #[case::is_there("a:b", json!({"a": 1, "b": 2}), "a=1,b=2")]
    #[case::chained("a:b,b:c", json!({"a": 1}), "c=1")]
    #[case::erased_first("b:a,a:", json!({"a": 1, "b": 2}), "a=2")]
    #[case::no_pairs("a:b:c,:,", json!({"a": 1}), "a=1")]
    fn resources_are_renamed(#[case] annotation: &str, #[case] amounts: Value, #[case] expected: &str) {
        let mut spec: PodSpec = serde_json::from_value(json!({
            "containers": [{"resources": {"requests": amounts, "limits": amounts}}],
            "initContainers": [{"resources": {"requests": amounts}}],
            "overhead": amounts,
        }))
        .unwrap();
        replace(&mut spec, annotation);
        let main = &spec.containers[0].resources;
        let lists = [
            &main.requests,
            &main.limits,
            &spec.init_containers[0].resources.requests,
            &spec.overhead,
        ];
        for list in lists {
            assert_eq!(list.to_string(), expected);
        }
    }

    #[test]
    fn pairs_after_the_first_64_are_ignored() {
        let mut spec: PodSpec = serde_json::from_value(json!({"overhead": {"a": 1, "b": 1}})).unwrap();
        replace(&mut spec, &format!("{}a:x,b:y", "z:z,".repeat(63)));
        assert_eq!(spec.overhead.to_string(), "b=1,x=1");
    }
}

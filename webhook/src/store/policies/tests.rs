//! Tests of the policies in force while the ConfigMap is created, changes, is unreadable and is deleted.

use headroom_domain::policy::Mode;
use serde_json::json;

use super::*;

fn policies() -> (Policies, Arc<Changes>) {
    let changes = Arc::new(Changes::default());
    let file = json!({"mode": "guard", "bounds": {"cpu": {"max": 1.5}}});
    let file = serde_json::from_value(file).unwrap();
    let policies = Policies::new(file, names::SLO_CONFIG.to_owned(), Arc::clone(&changes));
    (policies, changes)
}

fn config_map(version: u64, text: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": names::SLO_CONFIG, "resourceVersion": version.to_string()},
        "data": {names::AMPLIFICATION_CONFIG: text, "colocation-config": "not ours"},
    }))
    .unwrap()
}

/// Mode, its source, the highest CPU ratio and the entry, for a node of that pool.
fn of_pool(policies: &Policies, pool: &str) -> Option<(Mode, Source, u32, Option<String>)> {
    let InForce {
        policy,
        mode_from,
        entry,
    } = policies.for_labels(|| Labels::from([("pool".to_owned(), pool.to_owned())]))?;
    Some((policy.mode, mode_from, policy.bounds.cpu.max.0, entry))
}

const ENTRIES: &str = r#"{"bounds":{"cpu":{"max":1.8}},"nodeConfigs":[
    {"name":"batch","nodeSelector":{"matchLabels":{"pool":"batch"}},"mode":"auto"},
    {"name":"wide","nodeSelector":{"matchLabels":{"pool":"wide"}},"bounds":{"cpu":{"max":3}}}
]}"#;
const BY_FILE: Option<(Mode, Source, u32, Option<String>)> = Some((Mode::Guard, Source::File, 150, None));

#[test]
fn nothing_is_in_force_until_the_api_server_was_heard() {
    let (policies, _) = policies();
    assert!(!policies.has_synced() && of_pool(&policies, "batch").is_none());
    policies.replace(None);
    assert!(policies.has_synced());
    assert_eq!(of_pool(&policies, "batch"), BY_FILE);
}

#[test]
fn each_layer_is_over_the_one_before_and_named_where_it_decides_the_mode() {
    let (policies, _) = policies();
    policies.replace(Some(config_map(1, ENTRIES)));
    let batch = Some((Mode::Auto, Source::Entry, 180, Some("batch".to_owned())));
    assert_eq!(of_pool(&policies, "batch"), batch);
    let wide = Some((Mode::Guard, Source::File, 300, Some("wide".to_owned())));
    assert_eq!(of_pool(&policies, "wide"), wide);
    assert_eq!(
        of_pool(&policies, "web"),
        Some((Mode::Guard, Source::File, 180, None))
    );
    policies.apply(config_map(2, r#"{"mode":"off"}"#));
    assert_eq!(
        of_pool(&policies, "batch"),
        Some((Mode::Off, Source::ConfigMap, 150, None))
    );
    let asked = policies
        .for_labels(Labels::new)
        .unwrap()
        .with_mode(Some(Mode::Static));
    assert_eq!(
        (asked.policy.mode, asked.mode_from),
        (Mode::Static, Source::Annotation)
    );
}

#[test]
fn a_version_that_cannot_be_read_leaves_the_last_good_one_in_force() {
    let (policies, _) = policies();
    policies.replace(Some(config_map(1, ENTRIES)));
    let good = of_pool(&policies, "batch");
    policies.apply(config_map(2, r#"{"mode":"off","bounds":{"cpu":{"max":11}}}"#));
    assert_eq!(of_pool(&policies, "batch"), good);
    let refused = Some(Refused {
        version: "2".to_owned(),
        reason: "bounds.cpu.max: max 11.00 is outside 1.00..10.00".to_owned(),
    });
    assert_eq!(policies.refused(), refused);
    // Seen again, also under a newer version, it is the same refusal.
    policies.replace(Some(config_map(
        3,
        r#"{"mode":"off","bounds":{"cpu":{"max":11}}}"#,
    )));
    assert_eq!((of_pool(&policies, "batch"), policies.refused()), (good, refused));
    policies.apply(config_map(4, r#"{"mode":"off"}"#));
    assert_eq!(of_pool(&policies, "batch").unwrap().0, Mode::Off);
    assert_eq!(policies.refused(), None);
}

#[test]
fn without_a_last_good_version_an_unreadable_one_leaves_the_policy_unknown() {
    let (policies, _) = policies();
    policies.replace(Some(config_map(1, "{")));
    assert!(policies.has_synced() && of_pool(&policies, "batch").is_none() && policies.refused().is_some());
}

#[test]
fn the_file_is_in_force_again_when_the_configmap_or_its_key_goes() {
    let ways: [fn(&Policies); 5] = [
        |policies| policies.delete(config_map(2, ENTRIES)),
        |policies| policies.replace(None),
        |policies| policies.apply(config_map(2, "")),
        |policies| policies.apply(config_map(2, "null")),
        |policies| policies.apply(ConfigMap::default()),
    ];
    for way in ways {
        let (policies, _) = policies();
        policies.replace(Some(config_map(1, ENTRIES)));
        assert_ne!(of_pool(&policies, "batch"), BY_FILE);
        way(&policies);
        assert_eq!(of_pool(&policies, "batch"), BY_FILE);
    }
}

#[test]
fn every_node_is_told_of_another_text_and_of_nothing_else() {
    let (policies, changes) = policies();
    let mut followed = [changes.follow("n1"), changes.follow("n2"), changes.follow_all()];
    let mut are_told = || {
        followed.each_mut().map(|followed| {
            let is_told = followed.has_changed().unwrap();
            followed.mark_unchanged();
            is_told
        })
    };
    policies.replace(Some(config_map(1, ENTRIES)));
    assert_eq!(are_told(), [true; 3]);
    policies.apply(config_map(2, ENTRIES));
    assert_eq!(are_told(), [false; 3]);
    policies.apply(config_map(3, "{"));
    assert_eq!(are_told(), [true; 3]);
    policies.delete(config_map(3, "{"));
    assert_eq!(are_told(), [true; 3]);
}

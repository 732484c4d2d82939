//! Tests of strategies that are laid over each other.

use crate::slo::{
    decode,
    document::Strategy,
    table::{Key, QOS, SYSTEM},
};

fn strategy(key: &'static Key, text: &str) -> Strategy {
    let text = format!(r#"{{"clusterStrategy":{text}}}"#);
    let reading = decode::read(key, &text).unwrap();
    assert!(reading.faults.is_empty(), "{reading:?}");
    reading.document.cluster.unwrap()
}

fn merged(key: &'static Key, base: &str, over: &str) -> Vec<String> {
    let merged = strategy(key, over).over(&strategy(key, base));
    merged
        .iter()
        .map(|(path, given)| format!("{path}={}", given.content))
        .collect()
}

#[test]
fn members_are_laid_over_each_other_one_by_one() {
    assert_eq!(
        merged(
            &SYSTEM,
            r#"{"watermarkScaleFactor":1,"totalNetworkBandwidth":"10G","schedFeatures":{"A":true,"B":true}}"#,
            r#"{"watermarkScaleFactor":2,"schedFeatures":{"A":false}}"#
        ),
        [
            "schedFeatures[A]=false",
            "schedFeatures[B]=true",
            "totalNetworkBandwidth=10G",
            "watermarkScaleFactor=2"
        ]
    );
}

#[test]
fn lists_are_replaced() {
    let blocks = |names: &[&str]| {
        let blocks: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{{"name":"{name}","type":"device"}}"#))
            .collect();
        format!(
            r#"{{"beClass":{{"blkioQOS":{{"enable":true,"blocks":[{}]}}}}}}"#,
            blocks.join(",")
        )
    };
    assert_eq!(
        merged(&QOS, &blocks(&["a", "b"]), &blocks(&["c"])),
        [
            "beClass.blkioQOS.blocks[0].name=c",
            "beClass.blkioQOS.blocks[0].type=device",
            "beClass.blkioQOS.enable=true"
        ]
    );
    assert_eq!(merged(&QOS, &blocks(&["a", "b"]), "{}").len(), 5);
}

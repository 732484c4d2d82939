//! Tests of pages: they are at most 80 columns wide for any document.

use headroom_domain::{installation::ConfigMapName, selector::Labels};
use headroom_rules::slo::{Data, Report, difference::difference, documents::SloDocuments};
use insta::assert_snapshot;

use super::*;
use crate::slo::node_list::NodeList;

/// A document of classes with a long path and a long name of an entry.
fn qos(entry: &str) -> SloDocuments {
    let text = format!(
        r#"{{"clusterStrategy":{{"systemClass":{{"memoryQOS":{{"enable":true,"pageCacheLimitPercent":50}}}},
            "beClass":{{"networkQOS":{{"egressRequest":"20M"}},"blkioQOS":{{"blocks":[{{"name":"{long}","type":"device"}}]}}}}}},
            "nodeStrategies":[{{"name":"{entry}","nodeSelector":{{"matchLabels":{{"x":"1"}}}},
            "systemClass":{{"memoryQOS":{{"pageCacheLimitPercent":60}}}}}}]}}"#,
        long = "/dev/disk/by-id/".repeat(3)
    );
    SloDocuments::read(&Data::from([("resource-qos-config".to_owned(), text)]))
}

fn labels() -> Labels {
    Labels::from([("x".to_owned(), "1".to_owned())])
}

fn is_narrow(text: &str) {
    for line in text.lines() {
        let is_one_word = line.trim().split(' ').count() == 1;
        assert!(line.chars().count() <= lines::WIDTH || is_one_word, "{line}");
    }
}

#[test]
fn long_paths_values_and_names_are_on_separate_lines() {
    let documents = qos("the-nodes-of-the-second-building-\\u001b[2J");
    let effective = documents
        .iter()
        .find(|document| document.key().name == "resource-qos-config");
    let page = NodeConfig {
        node: "n1".to_owned(),
        keys: vec![effective.unwrap().effective(&labels())],
    };
    let text = page.to_string();
    is_narrow(&text);
    assert_snapshot!(text);
    let nodes: NodeList = [("n1".to_owned(), labels())].into_iter().collect();
    let page = ConfigDifference {
        keys: difference(&qos("a"), &documents, &nodes),
        nodes: 1,
    };
    // The name of an entry is not a value.
    assert_eq!(page.to_string(), "no value changes on 1 nodes\n");
    let page = ConfigDifference {
        keys: difference(&SloDocuments::read(&Data::new()), &documents, &nodes),
        nodes: 1,
    };
    is_narrow(&page.to_string());
    assert_snapshot!(page.to_string());
}

#[test]
fn a_verdict_wraps_between_words() {
    let verdict = Verdict {
        config_map: ConfigMapName::default(),
        report: Report {
            warnings: vec![
                "a warning of many words ".repeat(10),
                "\u{1b}]0;title\u{7}".to_owned(),
            ],
            ..Report::default()
        },
        nodes: Some(3),
        has_old: true,
    };
    let text = verdict.to_string();
    is_narrow(&text);
    assert!(text.contains("2 warnings") && !text.contains('\u{1b}'), "{text}");
}

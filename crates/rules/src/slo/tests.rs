//! Tests of the whole check, each response under both behaviours. A row has the name of its case.

mod flow;
mod network;
mod pairs;
mod properties;
mod ranges;
mod sample;
mod selectors;
mod warnings;

use headroom_domain::selector::Labels;

use super::*;
use crate::switch::{Compat, Switches};

/// Short names of the keys.
pub(super) const COLO: &str = "colocation-config";
pub(super) const THR: &str = "resource-threshold-config";
pub(super) const QOS: &str = "resource-qos-config";
pub(super) const SYS: &str = "system-config";
pub(super) const BURST: &str = "cpu-burst-config";
pub(super) const HOST: &str = "host-application-config";
pub(super) const NORM: &str = "cpu-normalization-config";
pub(super) const AMP: &str = "resource-amplification-config";

#[derive(Debug, Default)]
pub(super) struct FewNodes(pub(super) Vec<(&'static str, Labels)>);

impl Nodes for FewNodes {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        for (name, labels) in &self.0 {
            visitor(name, labels);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) new: Data,
    pub(super) old: Option<Data>,
    pub(super) needs_names: bool,
    pub(super) nodes: FewNodes,
}

impl Case {
    pub(super) fn new<const N: usize>(data: [(&str, &str); N]) -> Self {
        Self {
            new: self::data(data),
            ..Self::default()
        }
    }

    pub(super) fn over<const N: usize>(self, old: [(&str, &str); N]) -> Self {
        Self {
            old: Some(data(old)),
            ..self
        }
    }

    pub(super) fn with_names(self) -> Self {
        Self {
            needs_names: true,
            ..self
        }
    }

    pub(super) fn with_node(mut self, name: &'static str, labels: &[(&str, &str)]) -> Self {
        let labels = labels
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        self.nodes.0.push((name, labels.collect()));
        self
    }

    pub(super) fn report(&self, compat: Compat) -> Report {
        let target = Target {
            namespace: "koordinator-system",
            name: "slo-controller-config",
        };
        let settings = Settings {
            needs_names: self.needs_names,
        };
        let switches = Switches::preset(crate::SWITCHES, compat);
        let report = check(
            target,
            &self.new,
            self.old.as_ref(),
            &settings,
            &switches,
            &self.nodes,
        );
        assert_eq!(report.refusal.is_some(), !report.errors.is_empty(), "{report:?}");
        report
    }

    fn refusal(&self, compat: Compat) -> String {
        self.report(compat).refusal.unwrap_or_else(|| "OK".to_owned())
    }

    /// Both behaviours return this; `OK` means no refusal, any other text is a part of the refusal.
    pub(super) fn is(&self, expected: &str) {
        self.is_upstream(expected);
        self.is_ours(expected);
    }

    pub(super) fn is_upstream(&self, expected: &str) {
        assert_contains(&self.refusal(Compat::Upstream), expected);
    }

    pub(super) fn is_ours(&self, expected: &str) {
        assert_contains(&self.refusal(Compat::Headroom), expected);
    }
}

fn data<const N: usize>(data: [(&str, &str); N]) -> Data {
    data.map(|(key, text)| (key.to_owned(), text.to_owned())).into()
}

#[track_caller]
fn assert_contains(text: &str, expected: &str) {
    assert!(
        if expected == "OK" {
            text == "OK"
        } else {
            text.contains(expected)
        },
        "{text} is not {expected}"
    );
}

/// A document with one strategy for all nodes.
pub(super) fn cluster(strategy: &str) -> String {
    format!(r#"{{"clusterStrategy":{strategy}}}"#)
}

/// An entry for nodes with `x=1` and these members.
pub(super) fn entry(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"name":"a","nodeSelector":{{"matchLabels":{{"x":"1"}}}}{comma}{members}}}"#)
}

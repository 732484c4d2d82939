//! [`OffResult`]: remains of Headroom on a node that `off` restores to raw.

use std::fmt;

use headroom_domain::{
    capacity::{Annotations, NodeState, ProbeAnswer, amount, recorded_raw},
    names,
    policy::Mode,
    resource::{PerResource, Resource},
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Remains on a node. CPU is in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffResult {
    pub(crate) node: String,
    pub(crate) remains: Remains,
    /// Stored allocatable, or the predicted one.
    pub(crate) allocatable: PerResource<Option<u64>>,
    /// The kubelet's own values; `None` where they are not recorded.
    pub(crate) raw: PerResource<Option<u64>>,
}

/// State of a node on the way to raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remains {
    Nothing,
    /// Bound pods request more than raw and keep allocatable above it.
    Held,
    /// The webhook's next write restores it.
    Due,
    /// The policy ignores the mode annotation, so the mode is still this one; `None` if the webhook does not know it.
    Ignored(Option<Mode>),
    /// No webhook processed the write.
    Unanswered,
}

/// Headroom's annotations on a node, without the mode, which users write.
pub(crate) fn traces(node: &Node) -> impl Iterator<Item = &'static str> {
    [
        names::MARKER,
        names::RAW_ALLOCATABLE,
        names::HINT,
        names::STATIC_RATIO,
    ]
    .into_iter()
    .filter(|key| node.annotations().contains_key(*key))
}

impl OffResult {
    /// Reads the amounts from a node, either stored or from a dry run.
    pub(crate) fn new(node: &Node, remains: Remains) -> Self {
        let stored = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        let allocatable = |resource: Resource| {
            let quantity = stored?.get(resource.name())?;
            amount(resource, &quantity.0.parse().ok()?)
        };
        let annotation = |key| node.annotations().get(key).cloned();
        let state = NodeState {
            annotations: Annotations::read(annotation, &Annotations::default()),
            ..NodeState::default()
        };
        Self {
            node: node.name_any(),
            remains,
            allocatable: PerResource::from_fn(allocatable),
            raw: recorded_raw(&state, &node.uid().unwrap_or_default()),
        }
    }

    /// Result of the webhook's answer about a node with mode `off`; `is_written` if the mode is stored.
    pub(crate) fn answered(node: &Node, answer: &ProbeAnswer, is_written: bool) -> Self {
        let ProbeAnswer {
            mode,
            is_marked,
            allocatable,
        } = *answer;
        let remains = match mode {
            Some(Mode::Off) if is_marked => Remains::Held,
            Some(Mode::Off) if is_written => Remains::Due,
            Some(Mode::Off) => Remains::Nothing,
            mode => Remains::Ignored(mode),
        };
        Self {
            allocatable,
            ..Self::new(node, remains)
        }
    }

    /// Reason why a node is not raw yet, if a webhook processed the write; `None` if it is raw.
    pub(crate) fn waits_for(&self) -> Option<String> {
        match self.remains {
            Remains::Nothing | Remains::Unanswered => None,
            Remains::Due => Some("the webhook's next write restores it".to_owned()),
            Remains::Ignored(Some(mode)) => Some(format!(
                "the webhook's setting amplification.annotations keeps mode {mode}"
            )),
            Remains::Ignored(None) => Some("the webhook does not know its policy".to_owned()),
            Remains::Held => {
                let needed = Resource::ALL.into_iter().filter_map(|resource| {
                    let (allocatable, raw) = ((*self.allocatable.get(resource))?, (*self.raw.get(resource))?);
                    let [needed, of] = [allocatable, raw]
                        .map(|amount| crate::human_numbers::short(resource, i128::from(amount)));
                    (allocatable > raw).then(|| format!("{resource} {needed} of {of}"))
                });
                let needed: Vec<String> = needed.collect();
                Some(if needed.is_empty() {
                    "its bound pods need more than raw".to_owned()
                } else {
                    format!("its bound pods need {}", needed.join(", "))
                })
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Self {
            node,
            remains,
            allocatable,
            raw,
        } = self;
        json!({
            "node": node, "remains": remains.word(),
            "cpu_allocatable_milli": allocatable.cpu, "cpu_raw_milli": raw.cpu,
            "memory_allocatable_bytes": allocatable.memory, "memory_raw_bytes": raw.memory,
        })
    }
}

impl Remains {
    /// Value of the JSON key `remains`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Held => "held",
            Self::Due => "due",
            Self::Ignored(_) => "ignored",
            Self::Unanswered => "unanswered",
        }
    }
}

impl fmt::Display for OffResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            remains,
            allocatable,
            raw,
        } = self;
        let shown = |resource: Resource, amount: Option<u64>| {
            amount.map_or_else(
                || "?".to_owned(),
                |amount| crate::human_numbers::short(resource, i128::from(amount)),
            )
        };
        let all = |amounts: &PerResource<Option<u64>>| {
            Resource::ALL
                .map(|resource| format!("{resource} {}", shown(resource, *amounts.get(resource))))
                .join(", ")
        };
        match remains {
            Remains::Nothing => write!(f, "{node}: raw, {}", all(allocatable)),
            Remains::Held => write!(
                f,
                "{node}: stays at {} (raw {}) until its bound pods fit",
                all(allocatable),
                all(raw)
            ),
            Remains::Due => write!(f, "{node}: the next write restores it"),
            Remains::Ignored(_) => write!(
                f,
                "{node}: stays at {}: {}",
                all(allocatable),
                self.waits_for().unwrap_or_default()
            ),
            Remains::Unanswered => write!(
                f,
                "{node}: still at {}; no webhook processed the write",
                all(allocatable)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu: &str, annotations: &Value) -> Node {
        let object = json!({
            "metadata": {"name": "n1", "annotations": annotations},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_mode_annotation_does_not_remain() {
        let off = json!({names::MODE: "off", names::RATIO: "{}"});
        assert_eq!(traces(&node("4", &off)).count(), 0);
        let marked = json!({names::MODE: "off", names::MARKER: "{}", names::RAW_ALLOCATABLE: "{}"});
        let found: Vec<_> = traces(&node("4", &marked)).collect();
        assert_eq!(found, [names::MARKER, names::RAW_ALLOCATABLE]);
    }

    #[test]
    fn answers_of_the_webhook_decide_the_remains() {
        let annotations = json!({names::MARKER: "{}"});
        let remains = |mode, is_marked, is_written| {
            let answer = ProbeAnswer {
                mode,
                is_marked,
                allocatable: PerResource::default(),
            };
            OffResult::answered(&node("5", &annotations), &answer, is_written).remains
        };
        let off = Some(Mode::Off);
        assert_eq!(remains(off, false, false), Remains::Nothing);
        assert_eq!(remains(off, false, true), Remains::Due);
        assert_eq!(remains(off, true, true), Remains::Held);
        assert_eq!(
            remains(Some(Mode::Auto), true, true),
            Remains::Ignored(Some(Mode::Auto))
        );
        assert_eq!(remains(None, true, false), Remains::Ignored(None));
    }

    #[test]
    fn each_outcome_is_one_line() {
        let annotations = json!({names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#});
        let line = |remains| OffResult::new(&node("5", &annotations), remains).to_string();
        assert_eq!(line(Remains::Nothing), "n1: raw, cpu 5000m, memory 8.0GiB");
        assert_eq!(
            line(Remains::Held),
            "n1: stays at cpu 5000m, memory 8.0GiB (raw cpu 4000m, memory 8.0GiB) until its bound pods fit"
        );
        assert_eq!(line(Remains::Due), "n1: the next write restores it");
        assert_eq!(
            line(Remains::Unanswered),
            "n1: still at cpu 5000m, memory 8.0GiB; no webhook processed the write"
        );
        assert_eq!(
            line(Remains::Ignored(Some(Mode::Auto))),
            "n1: stays at cpu 5000m, memory 8.0GiB: the webhook's setting amplification.annotations keeps mode auto"
        );
        let held = OffResult::new(&node("5", &annotations), Remains::Held).json();
        assert_eq!(
            held,
            json!({
                "node": "n1", "remains": "held", "cpu_allocatable_milli": 5000, "cpu_raw_milli": 4000,
                "memory_allocatable_bytes": 8_u64 << 30, "memory_raw_bytes": 8_u64 << 30,
            })
        );
    }
}

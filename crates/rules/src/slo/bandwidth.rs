//! Network bandwidth of QoS classes: each value by itself, and the sums compared with the total.
//!
//! A request or a limit is a percentage of the node's bandwidth or an amount. Koordinator adds both as plain numbers;
//! here each kind has its own sum and its own bound.

mod sums;

use headroom_domain::{
    field::{BadValue, Error},
    quantity::Quantity,
};

use self::MemberKind::{EgressLimit, EgressRequest, IngressLimit, IngressRequest};
pub(super) use self::sums::{check_totals, warn_of_lost_totals};
use super::{
    decode::parse_quantity,
    document::{Content, Document, Strategy},
    findings::{Findings, path},
    table::{Key, QOS},
};

/// A bandwidth member of a class.
#[derive(Debug, Clone, Copy)]
struct Member {
    kind: MemberKind,
    /// Path of the member below a strategy.
    own: &'static str,
    /// Class and field in Koordinator's code.
    go: &'static str,
}

/// The four bandwidth members of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    IngressRequest,
    IngressLimit,
    EgressRequest,
    EgressLimit,
}

/// Members that are checked, in the order of the check.
static MEMBERS: [Member; 12] = [
    member(
        IngressRequest,
        "lsrClass.networkQOS.ingressRequest",
        "LSRClass.IngressRequest",
    ),
    member(
        IngressLimit,
        "lsrClass.networkQOS.ingressLimit",
        "LSRClass.IngressLimit",
    ),
    member(
        EgressRequest,
        "lsrClass.networkQOS.egressRequest",
        "LSRClass.EgressRequest",
    ),
    member(
        EgressLimit,
        "lsrClass.networkQOS.egressLimit",
        "LSRClass.EgressLimit",
    ),
    member(
        IngressRequest,
        "lsClass.networkQOS.ingressRequest",
        "LSClass.IngressRequest",
    ),
    member(
        IngressLimit,
        "lsClass.networkQOS.ingressLimit",
        "LSClass.IngressLimit",
    ),
    member(
        EgressRequest,
        "lsClass.networkQOS.egressRequest",
        "LSClass.EgressRequest",
    ),
    member(
        EgressLimit,
        "lsClass.networkQOS.egressLimit",
        "LSClass.EgressLimit",
    ),
    member(
        IngressRequest,
        "beClass.networkQOS.ingressRequest",
        "BEClass.IngressRequest",
    ),
    member(
        IngressLimit,
        "beClass.networkQOS.ingressLimit",
        "BEClass.IngressLimit",
    ),
    member(
        EgressRequest,
        "beClass.networkQOS.egressRequest",
        "BEClass.EgressRequest",
    ),
    member(
        EgressLimit,
        "beClass.networkQOS.egressLimit",
        "BEClass.EgressLimit",
    ),
];

/// Members that are summed up.
const REQUESTS: [MemberKind; 2] = [IngressRequest, EgressRequest];

const fn member(kind: MemberKind, own: &'static str, go: &'static str) -> Member {
    Member { kind, own, go }
}

impl MemberKind {
    /// Name of the JSON member.
    const fn name(self) -> &'static str {
        match self {
            Self::IngressRequest => "ingressRequest",
            Self::IngressLimit => "ingressLimit",
            Self::EgressRequest => "egressRequest",
            Self::EgressLimit => "egressLimit",
        }
    }
}

/// Percentage or amount of bandwidth.
#[derive(Debug, Clone, Copy)]
enum Bandwidth {
    Percent(i64),
    Amount(Quantity),
}

/// A strategy of the document with its position.
#[derive(Debug, Clone, Copy)]
struct Part<'d> {
    strategy: &'d Strategy,
    /// Index of its entry; `None` for all nodes.
    entry: Option<usize>,
}

/// Checks values, then kinds, then sums, and stops at the first of these checks with a fault.
pub(super) fn check(qos: &Document, system: &Document, by_kind: bool, findings: &mut Findings) {
    let before = findings.error_count();
    let parts: Vec<Part<'_>> = parts(qos).collect();
    for part in &parts {
        check_values(part, findings);
    }
    if findings.error_count() > before {
        return;
    }
    for part in &parts {
        check_kinds(part, findings);
    }
    if findings.error_count() > before {
        return;
    }
    sums::check_percentages(qos, by_kind, findings);
    if findings.error_count() == before {
        check_totals(qos, system, by_kind, findings);
    }
}

fn parts(document: &Document) -> impl Iterator<Item = Part<'_>> {
    let cluster = document.cluster.iter().map(|strategy| Part {
        strategy,
        entry: None,
    });
    let entries = document.entries.iter().enumerate().map(|(index, entry)| Part {
        strategy: &entry.strategy,
        entry: Some(index),
    });
    cluster.chain(entries)
}

fn check_values(part: &Part<'_>, findings: &mut Findings) {
    for Member { own, go, .. } in &MEMBERS {
        let Some(content) = part.strategy.get(own) else {
            continue;
        };
        let Some((words, detail)) = value_fault(content) else {
            continue;
        };
        let value = BadValue::from(content);
        findings.refuse(|| {
            let place = match part.entry {
                None => QOS.go_cluster.to_owned(),
                Some(index) => format!("nodeStrategy.{index}"),
            };
            let go_type = QOS.go_type;
            format!("{go_type}.{place}.{go}: Invalid value: {value}: {words}")
        });
        findings.error(|| Error::invalid(&path(&QOS, &part.below(own)), value.clone(), detail));
    }
}

/// Returns the fault of a single value: Koordinator's message, and Headroom's.
fn value_fault(content: &Content) -> Option<(&'static str, &'static str)> {
    match content {
        Content::Int(percent) => (!(0..=100).contains(percent)).then_some((
            "must be percentage value just in 0-100'",
            "must be a percentage from 0 to 100, or a quantity in quotes",
        )),
        Content::Text(text) => parse_quantity(text).err().map(|words| {
            let detail = "must be a quantity such as \"50M\", or a percentage as a number without quotes";
            (words, detail)
        }),
        Content::Bool(_) | Content::Number(_) | Content::Quantity(_) | Content::Json(_) => None,
    }
}

fn check_kinds(part: &Part<'_>, findings: &mut Findings) {
    let requests = MEMBERS.iter().filter(|member| REQUESTS.contains(&member.kind));
    let mut requests = requests.filter_map(|member| bandwidth(part.strategy, member.own));
    let is_percent = |bandwidth: &Bandwidth| matches!(bandwidth, Bandwidth::Percent(_));
    let Some(first) = requests.next() else { return };
    let is_mixed = requests.any(|other| is_percent(&other) != is_percent(&first));
    if is_mixed {
        findings.refuse(|| {
            let place = match part.entry {
                None => "clusterStrategy".to_owned(),
                Some(index) => format!("nodeStrategy[{index}]"),
            };
            format!("only one type can be used for percentages or quantity in {place}")
        });
        findings.error(|| {
            let detail =
                "ingressRequest and egressRequest of all classes must be percentages or quantities, not both";
            Error::forbidden(&path(&QOS, &part.below("")), detail)
        });
    }
}

impl Part<'_> {
    /// Path below the key of a member below the strategy.
    fn below(&self, own: &str) -> String {
        let Key { cluster, entries, .. } = QOS;
        let base = match self.entry {
            None => cluster.unwrap_or_default().to_owned(),
            Some(index) => format!("{entries}[{index}]"),
        };
        if own.is_empty() {
            base
        } else {
            format!("{base}.{own}")
        }
    }
}

/// Strategies in force for the nodes of a part.
#[derive(Debug, Clone, Copy)]
struct InForce<'d> {
    own: &'d Strategy,
    /// Strategy that applies to members that `own` lacks.
    base: Option<&'d Strategy>,
}

impl InForce<'_> {
    fn bandwidth(&self, own: &str) -> Option<Bandwidth> {
        let content = self.own.get(own).or_else(|| self.base?.get(own));
        content.and_then(bandwidth_of)
    }
}

fn bandwidth(strategy: &Strategy, own: &str) -> Option<Bandwidth> {
    strategy.get(own).and_then(bandwidth_of)
}

fn bandwidth_of(content: &Content) -> Option<Bandwidth> {
    match content {
        Content::Int(percent) => Some(Bandwidth::Percent(*percent)),
        Content::Text(text) => parse_quantity(text).ok().map(Bandwidth::Amount),
        Content::Bool(_) | Content::Number(_) | Content::Quantity(_) | Content::Json(_) => None,
    }
}

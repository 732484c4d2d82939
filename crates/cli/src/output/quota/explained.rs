//! Renders the replicas' answers about one quota, or about a pod's quota, for people.

use std::fmt;

use headroom_proto::v1alpha1::{
    ExplainQuotaPodResponse, ExplainQuotaResponse, ExplainedQuota, PodAmount, QuotaNamespace, QuotaStatus,
};

use super::{
    super::{
        Layout,
        slo::lines::{printable, wrapped_at},
    },
    page_width,
    resources::resource_table,
    verdict_sentence, write_sights,
};
use crate::{human_numbers::counted, pod::PodName, quota::answers::QuotaAnswers};

/// Page about all quotas with one name.
pub(crate) struct QuotaPage<'a> {
    pub(crate) answers: &'a QuotaAnswers<ExplainQuotaResponse>,
    pub(crate) layout: Layout,
}

/// Page about the quota of a pod.
pub(crate) struct PodQuotaPage<'a> {
    pub(crate) pod: &'a PodName,
    pub(crate) answers: &'a QuotaAnswers<ExplainQuotaPodResponse>,
    pub(crate) layout: Layout,
}

impl fmt::Display for QuotaPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_sights(f, self.layout, self.answers, |answer| answer.sight.as_ref())?;
        let Some(answer) = self.answers.first(|answer| answer.sight.as_ref()) else {
            return Ok(());
        };
        for quota in &answer.quotas {
            writeln!(f)?;
            write_quota(f, quota, self.layout)?;
        }
        for other in self
            .answers
            .successes()
            .filter(|other| !std::ptr::eq(*other, answer))
        {
            write_difference(f, answer, other, page_width(self.layout))?;
        }
        Ok(())
    }
}

/// Writes the replicas whose answer to a new pod differs.
fn write_difference(
    f: &mut fmt::Formatter<'_>,
    answer: &ExplainQuotaResponse,
    other: &ExplainQuotaResponse,
    width: usize,
) -> fmt::Result {
    let replica = other
        .sight
        .as_ref()
        .map(|sight| sight.replica.as_str())
        .unwrap_or_default();
    for quota in &other.quotas {
        let same = answer.quotas.iter().find(|same| same.uid == quota.uid);
        let (Some(verdict), Some(same)) = (&quota.verdict, same) else {
            f.write_str(&wrapped_at(
                width,
                0,
                &format!("replica {replica} knows another quota with this name"),
            ))?;
            continue;
        };
        if same
            .verdict
            .as_ref()
            .is_none_or(|same| same.result != verdict.result)
        {
            f.write_str(&wrapped_at(
                width,
                0,
                &format!("replica {replica}, a new pod: {}", verdict_sentence(verdict)),
            ))?;
        }
    }
    Ok(())
}

fn write_quota(f: &mut fmt::Formatter<'_>, explained: &ExplainedQuota, layout: Layout) -> fmt::Result {
    let width = page_width(layout);
    let ExplainedQuota {
        status,
        uid: _,
        children,
        above,
        way_end,
        namespaces,
        namespaces_left_out,
        of_the_name,
        verdict,
        faults,
        noted,
    } = explained;
    let empty = QuotaStatus::default();
    let status = status.as_ref().unwrap_or(&empty);
    f.write_str(&wrapped_at(
        width,
        0,
        &format!("quota {}/{}", status.namespace, status.name),
    ))?;
    f.write_str(&wrapped_at(width, 2, &place(status, above, way_end, *children)))?;
    if *of_the_name > 1 {
        let text = format!("{of_the_name} quotas have this name; pods that name it are refused");
        f.write_str(&wrapped_at(width, 2, &text))?;
    }
    write_status(f, status, layout)?;
    for namespace in namespaces {
        f.write_str(&wrapped_at(width, 2, &namespace_sentence(namespace)))?;
    }
    if *namespaces_left_out > 0 {
        writeln!(f, "  {namespaces_left_out} more namespaces were left out")?;
    }
    if let Some(verdict) = verdict {
        let text = format!(
            "a new pod with this quota in its label: {}",
            verdict_sentence(verdict)
        );
        f.write_str(&wrapped_at(width, 2, &text))?;
    }
    for fault in faults {
        f.write_str(&wrapped_at(
            width,
            2,
            &format!("the stored quota is invalid: {fault}"),
        ))?;
    }
    if !noted.is_empty() {
        f.write_str(&wrapped_at(
            width,
            2,
            &format!("recorded by the scheduler: {noted}"),
        ))?;
    }
    Ok(())
}

/// Position of a quota in its tree.
fn place(status: &QuotaStatus, above: &[String], way_end: &str, children: u64) -> String {
    let way = match (above, way_end) {
        ([], _) => "at the first level".to_owned(),
        (above, "root") => format!("child of {}", above.join(" < ")),
        ([missing], "orphan") => format!("its parent {missing} does not exist"),
        ([above @ .., missing], "orphan") => {
            format!(
                "child of {}, whose parent {missing} does not exist",
                above.join(" < ")
            )
        }
        (above, "cycle") => format!("its own ancestor: {}", above.join(" < ")),
        (above, _) => format!("child of {} and more", above.join(" < ")),
    };
    let parts = match (status.is_parent, children) {
        (false, 0) => String::new(),
        (false, children) => format!(", {children} children, but isParent is not set"),
        (true, children) => format!(", parent of {children}"),
    };
    let tree = if status.tree_id.is_empty() {
        String::new()
    } else {
        format!(", tree {}", status.tree_id)
    };
    format!("{way}{parts}{tree}")
}

fn write_status(f: &mut fmt::Formatter<'_>, status: &QuotaStatus, layout: Layout) -> fmt::Result {
    let width = page_width(layout);
    let QuotaStatus {
        is_going,
        is_pending,
        resources,
        pods,
        claims,
        unreadable,
        ..
    } = status;
    if *is_going {
        writeln!(f, "  it is being deleted")?;
    }
    if *is_pending {
        writeln!(
            f,
            "  its last write was admitted and has not arrived on the watch yet"
        )?;
    }
    if !unreadable.is_empty() {
        let text = format!("all its pods are refused: {unreadable}");
        f.write_str(&wrapped_at(width, 2, &text))?;
    }
    match pods {
        Some(pods) => writeln!(f, "  {}, {claims} pending", counted(*pods, "pod"))?,
        None => writeln!(f, "  its pods are not known")?,
    }
    if !resources.is_empty() {
        writeln!(f)?;
        for line in resource_table(status, layout.indented(4)).lines() {
            writeln!(f, "    {line}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn namespace_sentence(of: &QuotaNamespace) -> String {
    let QuotaNamespace {
        namespace,
        quota,
        rule,
        counts,
    } = of;
    let pods = format!("pods without a label in namespace {namespace}");
    match (*counts, quota.as_str()) {
        (true, _) => format!("{pods} belong to it ({rule})"),
        (false, "") => format!("{pods} belong to no quota"),
        (false, quota) => format!("{pods} belong to quota {quota} ({rule})"),
    }
}

impl fmt::Display for PodQuotaPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, answers, layout } = self;
        let width = page_width(*layout);
        write_sights(f, *layout, answers, |answer| answer.sight.as_ref())?;
        let Some(answer) = answers.first(|answer| answer.sight.as_ref()) else {
            return Ok(());
        };
        let ExplainQuotaPodResponse {
            sight: _,
            is_known,
            label,
            quota,
            rule,
            requested,
            verdict,
            quotas,
            is_counted,
        } = answer;
        writeln!(f, "\npod {}", printable(&pod.to_string()))?;
        if !is_known {
            f.write_str(&wrapped_at(
                width,
                2,
                "the webhook does not know this pod; the answer is for a pod without a label",
            ))?;
        }
        let belongs = match (quota.as_str(), label.as_str()) {
            ("", _) => "it belongs to no quota".to_owned(),
            (quota, "") => format!("it belongs to quota {quota} ({rule})"),
            (quota, label) => format!("it belongs to quota {quota} ({rule}: its label is {label})"),
        };
        f.write_str(&wrapped_at(width, 2, &belongs))?;
        if !requested.is_empty() {
            f.write_str(&wrapped_at(width, 2, &requests_sentence(requested, *is_counted)))?;
        }
        if let Some(verdict) = verdict {
            f.write_str(&wrapped_at(
                width,
                2,
                &format!("if created now: {}", verdict_sentence(verdict)),
            ))?;
        }
        for quota in quotas {
            f.write_str(&wrapped_at(
                width,
                0,
                &format!("quota {}/{}", quota.namespace, quota.name),
            ))?;
            write_status(f, quota, *layout)?;
        }
        Ok(())
    }
}

/// Requests of a pod, as a sentence.
fn requests_sentence(requested: &[PodAmount], is_counted: bool) -> String {
    let amounts: Vec<String> = requested
        .iter()
        .map(|of| format!("{}={}", of.resource, of.amount))
        .collect();
    let counted = if is_counted { "" } else { ", not counted yet" };
    format!("it requests {}{counted}", amounts.join(", "))
}

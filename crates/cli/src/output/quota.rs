//! What replicas know of ElasticQuotas, for people and for machines.

pub(crate) mod explained;
pub(crate) mod json;
mod resources;
pub(crate) mod tree;

use std::{fmt, time::Duration};

use headroom_proto::v1alpha1::{QuotaSight, QuotaVerdict};

use super::{
    Layout,
    slo::lines::{WIDTH, wrapped_at},
};
use crate::{
    human_numbers::{age, counted},
    quota::answers::QuotaAnswers,
};

/// What each replica sees, and which one does not answer.
fn write_sights<T>(
    f: &mut fmt::Formatter<'_>,
    layout: Layout,
    answers: &QuotaAnswers<T>,
    sight: impl Fn(&T) -> Option<&QuotaSight>,
) -> fmt::Result {
    for answer in &answers.0 {
        let text = match &answer.said {
            Err(reason) => format!("replica at {} did not answer: {reason}", answer.addr),
            Ok(said) => sight(said).map_or_else(|| format!("replica at {}", answer.addr), sight_sentence),
        };
        f.write_str(&wrapped_at(page_width(layout), 0, &text))?;
    }
    Ok(())
}

/// Sentences end at 80 columns, or before on a narrower terminal.
fn page_width(layout: Layout) -> usize {
    layout.text_width().min(WIDTH)
}

fn sight_sentence(sight: &QuotaSight) -> String {
    let QuotaSight {
        replica,
        quotas_known,
        quotas_age_ms,
        pods_known,
        pods_age_ms,
        evaluation,
        quotas,
        quota_claims,
        pods,
        pod_claims,
    } = sight;
    let watch = |is_known: bool, age_ms: &Option<u64>| {
        let last_sign = age_ms.map(|ms| age(Duration::from_millis(ms)));
        match (is_known, last_sign) {
            (true, Some(last_sign)) => format!("known, last sign {last_sign} ago"),
            (true, None) => "known".to_owned(),
            (false, Some(last_sign)) => format!("too old to count, last sign {last_sign} ago"),
            (false, None) => "not followed".to_owned(),
        }
    };
    let evaluation = match evaluation.as_str() {
        "refuses" => "refused",
        "warns" => "let in with a warning",
        "off" => "let in, as pods are not compared with quotas",
        // A newer webhook may have others.
        other => other,
    };
    format!(
        "replica {replica}: {} ({}; {quota_claims} just admitted), {} ({}; {pod_claims} just admitted); what is too much for its quota \
         is {evaluation}",
        counted(*quotas, "quota"),
        watch(*quotas_known, quotas_age_ms),
        counted(*pods, "pod"),
        watch(*pods_known, pods_age_ms),
    )
}

/// What a new pod would be told.
fn verdict_sentence(verdict: &QuotaVerdict) -> String {
    match verdict.result.as_str() {
        "room" => "there is room".to_owned(),
        "refused" => format!("it would be refused: {}", verdict.reasons.join("; ")),
        "unlimited" => "nothing limits it".to_owned(),
        "off" => "it is let in: pods are not compared with quotas".to_owned(),
        "unknown" => {
            "the call would fail: the watch of the replica is too old, or nothing is followed".to_owned()
        }
        // A newer webhook may have others.
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests;

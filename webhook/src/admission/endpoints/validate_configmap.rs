//! Endpoint `/validate-configmap`: refuses versions of Koordinator's ConfigMap that nodes could not apply, with all
//! faults in one answer.

use std::time::Duration;

use headroom_domain::installation::ConfigMapName;
use headroom_kit::gate::Gate;
use headroom_rules::slo::{self, Data, Report, Target, version};

use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{
            BrokenStep, ConfigurationObject, Ctx, Declaration, Denials, Endpoint, Entry, FailurePolicy, Kind,
            Namespaces, Objects, Pass, RequestLimits, Rule, SideEffects, SloConfiguration, Step, Stop,
            UnknownSource, When, Work,
        },
        error::StepError,
        refusal::{Denial, DenialStyle},
        review::Operation,
    },
    store::sources,
};

/// Warnings of one answer. The API server shortens them where all of them together have more than 4,096 characters.
const MOST_WARNINGS: usize = 16;

static GATE: Gate = Gate::alpha("ConfigMapValidatingWebhook", "Checks Koordinator's ConfigMap.");

static STEP: Step<SloConfiguration> = Step {
    name: "content",
    when: When::Always,
    about: "Refuses unreadable documents, values out of range, and entries that select the same nodes; warns \
     of unknown members and of members that fall back to defaults.",
    reads: &[&sources::NODES],
    unknown: UnknownSource::FailsTheCall,
    run: check,
};

pub(super) static ENDPOINT: Endpoint<SloConfiguration> = Endpoint {
    declaration: Declaration {
        path: "/validate-configmap",
        about: "Checks Koordinator's ConfigMap, which configures all nodes.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::SloConfiguration,
        gate: Some(&GATE),
        modifiers: &[],
        entries: &[Entry {
            name: "vconfigmap.koordinator.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create, Operation::Update, Operation::Delete],
                group: "",
                version: "v1",
                resource: "configmaps",
                sub_resource: "",
            }],
            // The one ConfigMap may be in any namespace; no other one is sent.
            namespaces: Namespaces::All,
            objects: Objects::SloConfig,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        passes: &[Pass::Finalizers],
        // All entries and the nodes that they select are compared.
        work: Work::Offloaded,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: &[&STEP],
};

fn check(ctx: &Ctx<'_, SloConfiguration>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let SloConfiguration {
        config_map,
        settings,
        nodes,
    } = ctx.store;
    let request = ctx.request;
    let name = text(draft, &["metadata", "name"])?;
    if !config_map.is(&request.namespace, &name) {
        return Ok(());
    }
    if request.operation == Operation::Delete {
        draft.warn(removal(config_map));
        return Ok(());
    }
    let new = data(draft, |_| None)?;
    if let Some(text) = version::too_long(&new) {
        return Err(Stop::Denied(Denial::Text(text)));
    }
    // Texts that stay as they are are read once.
    let unchanged = |name: &str| new.get(name).filter(|_| draft.is_as_stored(&["data", name]));
    let old = draft.old().map(|old| data(old, unchanged)).transpose()?;
    let target = Target {
        namespace: config_map.namespace.as_str(),
        name: config_map.name.as_str(),
    };
    let report = slo::check(target, &new, old.as_ref(), settings, ctx.switches, nodes.as_ref());
    answer(report, draft)?;
    for text in version::emptied(&new, &old.unwrap_or_default()) {
        draft.warn(text);
    }
    Ok(())
}

/// Refuses with the first text if there is one. All that is wrong is a warning as well, also the first: its words are
/// Koordinator's, and have neither place nor range.
fn answer(report: Report, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let Report {
        refusal,
        errors,
        warnings,
    } = report;
    let texts: Vec<String> = errors.iter().map(ToString::to_string).chain(warnings).collect();
    let rest = texts.len().saturating_sub(MOST_WARNINGS);
    for text in texts.into_iter().take(MOST_WARNINGS) {
        draft.warn(text);
    }
    if rest > 0 {
        draft.warn(format!("{rest} more are not shown"));
    }
    match refusal {
        None => Ok(()),
        Some(text) => {
            let fields = errors;
            Err(Stop::Denied(Denial::Worded { text, fields }))
        }
    }
}

fn removal(config_map: &ConfigMapName) -> String {
    format!("ConfigMap {config_map} is removed: all nodes fall back to defaults")
}

/// Content of `data`; empty if there is none. Texts that `known` has are not read.
fn data<'k>(object: &impl Fields, known: impl Fn(&str) -> Option<&'k String>) -> Result<Data, StepError> {
    let names = object.names(&["data"]);
    if names.is_empty() {
        // Absent, or not an object.
        let data = object.read(&["data"]).map_err(|source| StepError::Read {
            field: "data".to_owned(),
            source,
        })?;
        return Ok(data.unwrap_or_default());
    }
    let texts = names.into_iter().map(|name| {
        let text = match known(name) {
            Some(text) => text.clone(),
            None => text(object, &["data", name])?,
        };
        Ok((name.to_owned(), text))
    });
    texts.collect()
}

fn text(object: &impl Fields, path: &[&str]) -> Result<String, StepError> {
    let text = object.read(path).map_err(|source| StepError::Read {
        field: path.join("."),
        source,
    })?;
    Ok(text.unwrap_or_default())
}

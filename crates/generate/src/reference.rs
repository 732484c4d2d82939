//! Generates the reference pages: command lines, gates, handlers, metrics, Events, rules and reasons.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Command, CommandFactory as _};
use clap_markdown::{MarkdownOptions, help_markdown_command_custom};
use headroom_domain::{
    capacity::{self, Why},
    estimate::{Reason, Stage},
    installation::{ConfigMapName, Installation},
    names,
};
use headroom_kit::{gate, metric::Catalogue};
use headroom_webhook::{
    admission::{
        endpoint::{
            AnyEndpoint, Entry, FailurePolicy, Family, Kind, Namespaces, Objects, Reinvocation, Rule,
            StepInfo, When,
        },
        endpoints::{self, ENDPOINTS},
    },
    control::events::{self, EventRow},
    start::wanted,
    store::{
        access::Access,
        informer::Presence,
        sources::{self, Source},
    },
};

/// Page of the flags of all programs.
pub(super) fn cli() -> String {
    let mut page = format!(
        "# Command lines\n\nEvery flag has an environment variable: `--log-format` is `{}LOG_FORMAT`. The flag wins.\n\n",
        headroom_kit::args::ENV_PREFIX
    );
    let webhook = headroom_webhook::start::flags::command()
        // The actual default is the name of this machine.
        .mut_arg("replica_name", |arg| arg.default_value("the host name"));
    for command in [
        kubectl_headroom::Args::command(),
        webhook,
        headroom_agent::args::Args::command(),
    ] {
        page += &program(command);
        page += "\n";
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// Section of one program with its subcommands.
fn program(command: Command) -> String {
    let options = MarkdownOptions::new()
        .show_footer(false)
        .show_table_of_contents(false);
    let page = help_markdown_command_custom(&fenced(command), &options);
    // Removes the title and the introduction before the first section.
    let start = page.find("\n## ").map_or(0, |at| at + 1);
    page.get(start..).unwrap_or(&page).trim_end().to_owned() + "\n"
}

/// Puts examples into code blocks: a `#` comment in them would become a heading.
fn fenced(command: Command) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(help) => command.after_help(format!("```text\n{help}\n```")),
        None => command,
    };
    command.mut_subcommands(fenced)
}

/// Page of the webhook's feature gates.
pub(super) fn gates() -> String {
    let table = gate::markdown(endpoints::gates());
    format!("# Feature gates\n\nSet with `--feature-gates A=true,B=false` on `headroom-webhook`.\n\n{table}")
}

/// Page of the rules with their reasons, and of the reasons in agents' reports.
pub(super) fn reasons() -> Result<String> {
    let mut page = "# Rules and reasons\n\nThe webhook applies these rules to every write of a node's status, in this order. `kubectl headroom explain NODE` shows\nthe result of each rule on a node. The codes are also in the audit log and in metrics.\n".to_owned();
    for rule in capacity::Rule::ALL {
        writeln!(page, "\n## {}\n\n{}.", rule.name(), rule.about())?;
        let reasons = Why::ALL.into_iter().filter(|why| why.rule() == rule);
        for (index, why) in reasons.enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            writeln!(page, "{gap}- `{}`: {}", why.code(), why.about())?;
        }
    }
    page += "\n## Reports of agents\n\nAn agent reports reasons for the ratio of each resource, most important first. They are in\n`kubectl headroom explain NODE`, in the annotation `";
    page += names::HINT;
    page += "` and in `/status` of the agent.\n";
    for stage in Stage::ALL {
        writeln!(page, "\n### {}\n\n{}.\n", stage.name(), stage.about())?;
        for reason in Reason::ALL.into_iter().filter(|reason| reason.stage() == stage) {
            writeln!(page, "- `{}`: {}", reason.code(), reason.about())?;
        }
    }
    Ok(page)
}

/// Page of all admission endpoints with their steps.
pub(super) fn handlers() -> Result<String> {
    let mut page = "# Admission handlers\n".to_owned();
    for endpoint in ENDPOINTS {
        section(&mut page, *endpoint)?;
    }
    sources_table(&mut page)?;
    Ok(page)
}

/// Table of the watched sources of the stores.
fn sources_table(page: &mut String) -> Result<()> {
    write!(
        page,
        "\n## Sources\n\n\
         A replica watches these sources in the API server. A source that no served step reads is not watched, and needs no RBAC\n\
         rule. `/readyz?verbose` has a line for each watched source, and `headroom_webhook_informer_known` a series for each with a\n\
         separate watch. A replica becomes ready once it knows the sources of nodes. While another source is unknown, only calls\n\
         fail whose steps read it; if they fail closed, the replica is unready while another replica knows the source. A kind that the cluster does not have counts as known and empty, and the replica checks for it\n\
         every 30 s. A missing right never counts as empty.\n\n\
         | source | resource | stored data | may be absent | used by |\n|---|---|---|---|---|\n"
    )?;
    for source in sources::ALL {
        let Source {
            name,
            about,
            access:
                Access {
                    group,
                    resource,
                    objects,
                    verbs: _,
                    namespace: _,
                },
            presence,
            shares,
            open: _,
            close: _,
        } = source;
        let dot = if group.is_empty() { "" } else { "." };
        let names = objects.in_installation(&Installation::default());
        let only: Vec<_> = names.iter().map(|name| format!(" `{name}`")).collect();
        let shared = shares.map_or_else(String::new, |other| format!(", from the watch of {}", other.name));
        let absent = match presence {
            Presence::Always => "no",
            Presence::Custom { .. } => "yes",
        };
        writeln!(
            page,
            "| {name} | `{resource}{dot}{group}`{}{shared} | {about} | {absent} | {} |",
            only.join(","),
            used_by(source)
        )?;
    }
    Ok(())
}

/// Steps that read a source, and families for which the process watches it.
fn used_by(source: &Source) -> String {
    let is_source = |other: &&Source| other.name == source.name;
    let always = wanted::OF_NODES
        .iter()
        .any(is_source)
        .then(|| "every replica".to_owned());
    let families = Family::ALL
        .into_iter()
        .filter(|family| always.is_none() && wanted::of_family(*family).iter().any(is_source));
    let families = families.map(|family| format!("`--serve {}`", family.name()));
    let steps = ENDPOINTS.iter().flat_map(|endpoint| endpoint.steps());
    let steps = steps.filter(|step| step.reads.iter().any(is_source));
    let steps = steps.map(|step| format!("step {}", step.name));
    let mut wanted: Vec<_> = always.clone().into_iter().chain(families).chain(steps).collect();
    // Steps of two endpoints may have the same name.
    wanted.dedup();
    if wanted.is_empty() {
        "no step yet".to_owned()
    } else {
        wanted.join(", ")
    }
}

fn section(page: &mut String, endpoint: &dyn AnyEndpoint) -> Result<()> {
    let declaration = endpoint.declaration();
    let (path, about) = (declaration.path, declaration.about);
    let kind = match declaration.kind {
        Kind::Mutating(Reinvocation::Never) => "mutating, not called again in one request",
        Kind::Mutating(Reinvocation::IfNeeded) => {
            "mutating, called again if a later webhook changes the object"
        }
        Kind::Validating => "validating",
    };
    write!(page, "\n## `{path}`\n\n{about}\n\n| | |\n|---|---|\n")?;
    writeln!(page, "| kind | {kind} |")?;
    writeln!(
        page,
        "| served with | `--serve {}` |",
        declaration.family().name()
    )?;
    if let Some(gate) = declaration.gate {
        writeln!(page, "| gate | `{}` |", gate.name)?;
    }
    for entry in declaration.entries {
        entry_rows(page, entry)?;
    }
    write!(page, "\n| step | effect | gate | reads |\n|---|---|---|---|\n")?;
    for step in endpoint.steps() {
        let StepInfo {
            name,
            when,
            about,
            reads,
            unknown: _,
        } = step;
        let sources: Vec<&str> = reads.iter().map(|source| source.name).collect();
        let when = match when {
            When::Always => "-".to_owned(),
            When::On(gate) => format!("`{}`", gate.name),
            When::Off(gate) => format!("`{}` off", gate.name),
        };
        writeln!(page, "| {name} | {about} | {when} | {} |", sources.join(", "))?;
    }
    Ok(())
}

fn entry_rows(page: &mut String, entry: &Entry) -> Result<()> {
    let Entry {
        name,
        when: _,
        rules,
        namespaces,
        objects,
        conditions,
        side_effects: _,
        failure_policy,
        timeout,
    } = entry;
    let failure = match failure_policy {
        FailurePolicy::Fail => "the request is refused (`Fail`)",
        FailurePolicy::Ignore => "the request continues without it (`Ignore`)",
    };
    let selected = match namespaces {
        Namespaces::All => "all",
        Namespaces::ClusterScoped => "none: the objects are cluster-scoped",
        Namespaces::ExceptOurs => "all except Headroom's own",
        Namespaces::ExceptSystem => {
            "all except Headroom's own, `kube-system` and those with the label `control-plane`"
        }
    };
    writeln!(page, "| name | `{name}` |")?;
    for rule in *rules {
        writeln!(page, "| called for | {} |", called_for(rule))?;
    }
    writeln!(page, "| namespaces | {selected} |")?;
    match objects {
        Objects::All => {}
        Objects::Labelled { key, value } => writeln!(page, "| objects | with the label `{key}={value}` |")?,
        Objects::SloConfig => {
            let ConfigMapName { namespace, name } = ConfigMapName::default();
            writeln!(
                page,
                "| objects | ConfigMap `{name}` in `{namespace}`, or as set by `--slo-config-name` and `--config-namespace` |"
            )?;
        }
    }
    for condition in *conditions {
        writeln!(
            page,
            "| only if | `{}` |",
            condition.expression.replace('\n', " ")
        )?;
    }
    writeln!(page, "| if a call fails | {failure} |")?;
    writeln!(page, "| timeout | {} s |", timeout.as_secs())?;
    Ok(())
}

fn called_for(rule: &Rule) -> String {
    let Rule {
        operations,
        group,
        version,
        resource,
        sub_resource,
    } = *rule;
    let operations: Vec<&str> = operations.iter().map(|operation| operation.name()).collect();
    let group = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let slash = if sub_resource.is_empty() { "" } else { "/" };
    format!(
        "{} of `{resource}{slash}{sub_resource}` ({group})",
        operations.join(", ")
    )
}

/// Page of the metrics of both processes.
pub(super) fn metrics() -> Result<String> {
    let every = Catalogue::new(&[])?.markdown();
    let own = |catalogue: &Catalogue| {
        let table = catalogue.markdown();
        let rows = table
            .lines()
            .skip(2)
            .filter(|row| !every.lines().any(|line| line == *row));
        every.lines().take(2).chain(rows).collect::<Vec<_>>().join("\n")
    };
    Ok(format!(
        "# Metrics\n\nAll metrics are on the admin port, under `/metrics`. No label has the name of a node or a pod: the scrape\n\
         target identifies them.\n\n## Every process\n\nIn addition to these, the usual `process_` metrics of Prometheus clients.\n\n{every}\n\
         ## Webhook\n\n{}\n\n## Agent\n\n{}\n",
        own(&headroom_webhook::start::catalogue()?),
        own(&Catalogue::new(&headroom_agent::metrics::LISTS)?),
    ))
}

/// Page of the Events that the webhook publishes.
pub(super) fn events() -> String {
    let rows = events::ROWS.iter().map(|row| {
        let EventRow {
            reason,
            action,
            event_type,
            about,
            ..
        } = row;
        format!("| `{reason}` | `{action}` | {} | {about} |\n", event_type.name())
    });
    let rows: String = rows.collect();
    format!(
        "# Events\n\nThe leader publishes these Events in namespace `default`, with the reporting controller `{}`. It publishes one for\n\
         each object and occurrence, and repeats it every hour while the cause lasts: at most 20 at once, and 10 a minute. A Node\n\
         gets at most one Event of a reason a minute. Objects whose last Event is oldest come first, so that one object that changes\n\
         often cannot delay the others. `kubectl describe` of the object shows its Events.\n\n\
         | reason | action | type | cause |\n|---|---|---|---|\n{rows}",
        names::EVENT_REPORTER
    )
}

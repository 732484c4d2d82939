//! `reasons [CODE]`: prints the meaning of reason codes that appear in logs, annotations, metrics or tables.

use std::io::Write;

use headroom_domain::{capacity::Why, estimate::Reason};
use serde_json::{Value, json};

use super::Session;
use crate::{
    args::Format,
    error::Error,
    output::{Cell, Column, Layout, Table},
};

/// What the reason codes mean that stand in logs, annotations, metrics and tables.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes no cluster: it knows the codes of its own version. A code may be one of a rule of the webhook and one of an agent's
report; both are printed.

Examples:
  kubectl headroom reasons
  kubectl headroom reasons hint-held
  kubectl headroom reasons -o json | jq -r '.[] | select(.of == \"brake\").code'")]
pub(crate) struct ReasonsArgs {
    /// Only this code.
    #[arg(value_parser = known)]
    code: Option<String>,
}

/// A code, the rule or stage that gives it, and its meaning.
type ReasonRow = [&'static str; 3];

impl ReasonsArgs {
    pub(super) fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session { format, screen, .. } = session;
        let rows = rows().filter(|[code, ..]| self.code.as_ref().is_none_or(|wanted| wanted == code));
        screen.print(&match format {
            Format::Table => {
                let columns = [
                    Column::Text("CODE").always(),
                    Column::Text("OF").ranked(0),
                    Column::Text("MEANING").wrapped(),
                ];
                let layout = Layout {
                    width: screen.width(),
                    ..Layout::default()
                };
                Table::new(&columns, rows.map(|row| row.map(Cell::from)))
                    .render(layout)
                    .plain()
            }
            Format::Json => {
                let object =
                    |[code, of, meaning]: ReasonRow| json!({"code": code, "of": of, "meaning": meaning});
                format!("{:#}\n", rows.map(object).collect::<Value>())
            }
        })
    }
}

/// Every code: those of the webhook's rules, then those of agents' reports.
fn rows() -> impl Iterator<Item = ReasonRow> {
    let rules = Why::ALL.map(|why| [why.code(), why.rule().name(), why.about()]);
    let reports = Reason::ALL.map(|reason| [reason.code(), reason.stage().name(), reason.about()]);
    rules.into_iter().chain(reports)
}

fn known(code: &str) -> Result<String, &'static str> {
    if rows().any(|[known, ..]| known == code) {
        Ok(code.to_owned())
    } else {
        Err("no reason of this version; `kubectl headroom reasons` lists them")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::{Args, run, screen::Screen};

    async fn printed(line: &str) -> String {
        let words = ["kubectl-headroom"].into_iter().chain(line.split(' '));
        let mut out = Vec::new();
        let args = Args::try_parse_from(words).unwrap();
        run(args, &mut Screen::plain(&mut out)).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn a_code_of_rule_and_report_is_explained_as_both() {
        let text = printed("reasons clamped-max").await;
        let of: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(of, [Some("ratio"), Some("target")], "{text}");
    }

    #[tokio::test]
    async fn all_codes_are_there_for_machines() {
        let all: serde_json::Value = serde_json::from_str(&printed("reasons -o json").await).unwrap();
        let all = all.as_array().unwrap();
        assert_eq!(all.len(), super::rows().count());
        assert!(
            all.iter()
                .all(|row| row["meaning"].as_str().is_some_and(|text| !text.is_empty()))
        );
    }

    #[test]
    fn a_code_that_is_none_is_refused_with_its_name() {
        let refused = Args::try_parse_from(["kubectl-headroom", "reasons", "so-it-is"]).unwrap_err();
        assert!(refused.to_string().contains("so-it-is"), "{refused}");
    }
}

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

/// Meaning of the reason codes in logs, annotations, metrics and tables.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs no cluster and prints the codes of this version. A code may belong to a rule of the webhook and to an agent's report; then
both meanings are printed.

Examples:
  kubectl headroom reasons
  kubectl headroom reasons hint-held
  kubectl headroom reasons -o json | jq -r '.[] | select(.of == \"brake\").code'")]
pub(crate) struct ReasonsArgs {
    /// Print only this code.
    #[arg(value_parser = known)]
    code: Option<String>,
}

/// Code, the rule or stage that produces it, and its meaning.
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

/// All codes: those of the webhook's rules, then those of agents' reports.
fn rows() -> impl Iterator<Item = ReasonRow> {
    let rules = Why::ALL.map(|why| [why.code(), why.rule().name(), why.about()]);
    let reports = Reason::ALL.map(|reason| [reason.code(), reason.stage().name(), reason.about()]);
    rules.into_iter().chain(reports)
}

fn known(code: &str) -> Result<String, &'static str> {
    if rows().any(|[known, ..]| known == code) {
        Ok(code.to_owned())
    } else {
        Err("unknown reason code; `kubectl headroom reasons` lists all")
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
    async fn a_code_of_a_rule_and_a_report_has_two_rows() {
        let text = printed("reasons clamped-max").await;
        let of: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(of, [Some("ratio"), Some("target")], "{text}");
    }

    #[tokio::test]
    async fn json_has_all_codes() {
        let all: serde_json::Value = serde_json::from_str(&printed("reasons -o json").await).unwrap();
        let all = all.as_array().unwrap();
        assert_eq!(all.len(), super::rows().count());
        assert!(
            all.iter()
                .all(|row| row["meaning"].as_str().is_some_and(|text| !text.is_empty()))
        );
    }

    #[test]
    fn an_unknown_code_is_named_in_the_error() {
        let refused = Args::try_parse_from(["kubectl-headroom", "reasons", "so-it-is"]).unwrap_err();
        assert!(refused.to_string().contains("so-it-is"), "{refused}");
    }
}

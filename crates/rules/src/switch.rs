//! Switches: each restores Koordinator's behaviour for one rule of ours that differs from it.
//!
//! ```
//! use headroom_rules::switch::{Compat, Switch, Switches};
//!
//! static EXACT: Switch = Switch {
//!     name: "Exact",
//!     default: true,
//!     row: "D-0",
//!     koordinator: "a part of a name matches",
//!     about: "only the whole name matches",
//!     why: "parts of names are ambiguous",
//! };
//! let switches = Switches::parse([&EXACT], Compat::Upstream, "")?;
//! assert!(!switches.is_on(&EXACT));
//! # Ok::<(), headroom_rules::switch::SwitchError>(())
//! ```

use std::{collections::BTreeMap, iter::once, str::FromStr};

/// One difference from Koordinator. On means Headroom's behaviour, off means Koordinator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Name on the command line, in CamelCase.
    pub name: &'static str,
    /// State if it is not named on the command line.
    pub default: bool,
    /// Row of the difference in docs/compatibility.md.
    pub row: &'static str,
    /// Koordinator's behaviour, for the table in docs/compatibility.md.
    pub koordinator: &'static str,
    /// Behaviour while the switch is on.
    pub about: &'static str,
    /// Reason for the difference, for docs/compatibility.md.
    pub why: &'static str,
}

/// Behaviour for switches that are not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compat {
    /// Each switch has its own default.
    #[default]
    Headroom,
    /// Koordinator's behaviour: every switch is off.
    Upstream,
}

/// State of every switch. Default: each switch has its own default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(BTreeMap<&'static str, bool>);

/// Reasons why a list of switches is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// An entry is not `Name=bool`.
    #[error("switch entry {entry:?} is not of the form Name=true or Name=false")]
    Syntax {
        /// Entry as given, shortened for the message.
        entry: String,
    },
    /// No switch has this name.
    #[error("unknown switch {name:?}; known switches: {known}")]
    Unknown {
        /// Name as given, shortened for the message.
        name: String,
        /// All accepted names, joined by commas.
        known: String,
    },
    /// The list names a switch twice.
    #[error("switch {name} is set more than once")]
    Repeated {
        /// Name of the switch that occurs twice.
        name: &'static str,
    },
}

/// The text is not a known compatibility mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither headroom nor upstream")]
pub struct CompatError {
    /// Text as given, shortened for the message.
    text: String,
}

impl FromStr for Compat {
    type Err = CompatError;

    fn from_str(text: &str) -> Result<Self, CompatError> {
        match text {
            "headroom" => Ok(Self::Headroom),
            "upstream" => Ok(Self::Upstream),
            _ => Err(CompatError {
                text: shortened(text),
            }),
        }
    }
}

impl Switches {
    /// Parses a list such as `A=true,B=false`; `compat` sets the switches without an entry. An empty text has no
    /// entries.
    ///
    /// # Errors
    /// An entry is not `Name=true|false`, a name is unknown, or a name occurs twice.
    pub fn parse(
        known: impl IntoIterator<Item = &'static Switch>,
        compat: Compat,
        text: &str,
    ) -> Result<Self, SwitchError> {
        Self::preset(known, compat).with(text)
    }

    /// Sets every switch according to `compat`.
    pub fn preset(known: impl IntoIterator<Item = &'static Switch>, compat: Compat) -> Self {
        let state = |switch: &Switch| match compat {
            Compat::Headroom => switch.default,
            Compat::Upstream => false,
        };
        let states = known.into_iter().map(|switch| (switch.name, state(switch)));
        Self(states.collect())
    }

    /// Applies another list on top.
    ///
    /// # Errors
    /// Same as [`Self::parse`].
    pub fn with(&self, text: &str) -> Result<Self, SwitchError> {
        let mut states = self.0.clone();
        let mut named = BTreeMap::new();
        if text.trim().is_empty() {
            return Ok(Self(states));
        }
        for entry in text.split(',').map(str::trim) {
            let (name, is_on) = parse_entry(entry)?;
            let Some((&name, _)) = states.get_key_value(name) else {
                return Err(SwitchError::Unknown {
                    name: shortened(name),
                    known: states.keys().copied().collect::<Vec<_>>().join(", "),
                });
            };
            if named.insert(name, is_on).is_some() {
                return Err(SwitchError::Repeated { name });
            }
        }
        states.extend(named);
        Ok(Self(states))
    }

    /// Returns true if a switch is on. An unknown switch has its default.
    pub fn is_on(&self, switch: &Switch) -> bool {
        self.0.get(switch.name).copied().unwrap_or(switch.default)
    }

    /// Known switches with their states, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.0.iter().map(|(name, is_on)| (*name, *is_on))
    }
}

fn parse_entry(entry: &str) -> Result<(&str, bool), SwitchError> {
    match entry.split_once('=') {
        Some((name, "true")) if !name.is_empty() => Ok((name, true)),
        Some((name, "false")) if !name.is_empty() => Ok((name, false)),
        _ => Err(SwitchError::Syntax {
            entry: shortened(entry),
        }),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Help text of the flag with such a list: one line per switch.
pub fn help<'a>(known: impl IntoIterator<Item = &'a Switch>) -> String {
    let rows = known.into_iter().map(
        |Switch {
             name, default, about, ..
         }| { format!("  {name}=true|false (default {default}): {about}") },
    );
    let first = "Differences from Koordinator, for example A=true,B=false. A switch set to false restores Koordinator's behaviour.";
    once(first.to_owned()).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Rows of the table in docs/compatibility.md.
pub fn markdown<'a>(known: impl IntoIterator<Item = &'a Switch>) -> String {
    let rows = known.into_iter().map(|switch| {
        let Switch {
            name,
            default,
            row,
            koordinator,
            about,
            why,
        } = switch;
        let old = if *default {
            format!("`{name}=false`")
        } else {
            format!("default; `{name}=true` for Headroom's")
        };
        format!("| {row} | {koordinator} | {about} | {why} | {old} |\n")
    });
    once("| | Koordinator | Headroom | why | the old behaviour |\n|---|---|---|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    static FIXED: Switch = Switch {
        name: "Fixed",
        default: true,
        row: "D1",
        koordinator: "old",
        about: "new",
        why: "reason",
    };
    static OPTIONAL: Switch = Switch {
        name: "Optional",
        default: false,
        row: "D2",
        ..FIXED
    };
    static ALL: [&Switch; 2] = [&FIXED, &OPTIONAL];

    #[rstest]
    #[case::defaults(Compat::Headroom, "", [true, false])]
    #[case::blank(Compat::Headroom, " ", [true, false])]
    #[case::upstream(Compat::Upstream, "", [false, false])]
    #[case::one(Compat::Headroom, "Fixed=false", [false, false])]
    #[case::two(Compat::Headroom, "Optional=true, Fixed=false", [false, true])]
    #[case::named_beats_upstream(Compat::Upstream, "Optional=true", [false, true])]
    fn a_list_changes_only_what_it_names(
        #[case] compat: Compat,
        #[case] text: &str,
        #[case] expected: [bool; 2],
    ) {
        let switches = Switches::parse(ALL, compat, text).unwrap();
        assert_eq!(ALL.map(|switch| switches.is_on(switch)), expected);
        assert_eq!(
            switches.iter().collect::<Vec<_>>(),
            [("Fixed", expected[0]), ("Optional", expected[1])]
        );
    }

    #[rstest]
    #[case("Fixed", r#"switch entry "Fixed" is not of the form Name=true or Name=false"#)]
    #[case(
        "Fixed=1",
        r#"switch entry "Fixed=1" is not of the form Name=true or Name=false"#
    )]
    #[case(
        "Fixed=true,",
        r#"switch entry "" is not of the form Name=true or Name=false"#
    )]
    #[case("=true", r#"switch entry "=true" is not of the form Name=true or Name=false"#)]
    #[case("Fixt=true", r#"unknown switch "Fixt"; known switches: Fixed, Optional"#)]
    #[case("Fixed=true,Fixed=true", "switch Fixed is set more than once")]
    fn a_wrong_list_is_refused_with_its_reason(#[case] text: &str, #[case] reason: &str) {
        let error = Switches::parse(ALL, Compat::Headroom, text).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }

    #[test]
    fn a_long_entry_is_shortened() {
        let error = Switches::parse(ALL, Compat::Headroom, &"x".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 200);
    }

    #[test]
    fn unknown_switches_have_their_defaults() {
        let switches = Switches::default();
        assert!(switches.is_on(&FIXED) && !switches.is_on(&OPTIONAL));
    }

    #[test]
    fn only_two_words_name_a_behaviour() {
        assert_eq!("headroom".parse(), Ok(Compat::Headroom));
        assert_eq!("upstream".parse(), Ok(Compat::Upstream));
        let error = "Upstream".parse::<Compat>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""Upstream" is neither headroom nor upstream"#
        );
    }

    #[test]
    fn help_and_table_show_every_switch() {
        assert!(help(ALL).contains("\n  Fixed=true|false (default true): new"));
        let table = markdown(ALL);
        assert!(table.contains("| D1 | old | new | reason | `Fixed=false` |\n"));
        assert!(table.contains("| D2 | old | new | reason | default; `Optional=true` for Headroom's |\n"));
        assert_eq!((help(ALL).lines().count(), table.lines().count()), (3, 4));
    }
}

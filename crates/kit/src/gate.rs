//! Feature gates in the syntax of Kubernetes: `--feature-gates A=true,B=false`.
//!
//! ```
//! use headroom_kit::gate::{Gate, GateSet};
//!
//! static PROFILE: Gate = Gate::beta("PodProfile", "Applies colocation profiles.");
//! let gates = GateSet::parse([&PROFILE], "PodProfile=false")?;
//! assert!(!gates.enabled(&PROFILE));
//! # Ok::<(), headroom_kit::gate::GateError>(())
//! ```

use std::{collections::BTreeMap, fmt, iter::once};

/// Maturity of a feature, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// May change or be removed; off by default.
    Alpha,
    /// Stays, but details may change; on by default unless declared otherwise.
    Beta,
    /// Stable: always on, cannot be disabled.
    Ga,
}

/// Feature that can be switched at startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Name on the command line, in CamelCase.
    pub name: &'static str,
    /// Maturity of the feature, which decides `AllAlpha` and `AllBeta`.
    pub stage: Stage,
    /// State without a `--feature-gates` entry.
    pub default: bool,
    /// True if enabling the gate disables a feature. `AllAlpha` leaves such a gate alone: enabling every alpha
    /// feature must not disable this one.
    pub is_negative: bool,
    /// One sentence for help and docs: the effect of the feature.
    pub about: &'static str,
}

/// State of every known gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSet {
    gates: BTreeMap<&'static str, (Gate, bool)>,
}

/// Reasons why a `--feature-gates` value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// An entry is not `Name=bool`.
    #[error("feature gate entry {entry:?} is not of the form Name=true or Name=false")]
    Syntax {
        /// Entry as given, without surrounding blanks.
        entry: String,
    },
    /// No gate has this name.
    #[error("unknown feature gate {name:?}; known gates: {known}")]
    Unknown {
        /// Name as given in the entry.
        name: String,
        /// All accepted names, joined by commas.
        known: String,
    },
    /// The value names a gate twice.
    #[error("feature gate {name} is set more than once")]
    Repeated {
        /// Name of the gate that occurs twice.
        name: String,
    },
    /// The value disables a stable feature.
    #[error("feature gate {name} is generally available and cannot be switched off")]
    Locked {
        /// Name of the stable gate.
        name: &'static str,
    },
}

/// Sets every alpha gate that the value does not name.
const ALL_ALPHA: &str = "AllAlpha";
/// Sets every beta gate that the value does not name.
const ALL_BETA: &str = "AllBeta";

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "alpha",
            Self::Beta => "beta",
            Self::Ga => "GA",
        })
    }
}

impl Gate {
    /// Declares an alpha feature, off by default.
    pub const fn alpha(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            stage: Stage::Alpha,
            default: false,
            is_negative: false,
            about,
        }
    }

    /// Declares an alpha gate that disables a feature when it is on. Off by default; `AllAlpha` leaves it alone.
    pub const fn negative(name: &'static str, about: &'static str) -> Self {
        Self {
            is_negative: true,
            ..Self::alpha(name, about)
        }
    }

    /// Declares a beta feature, on by default.
    pub const fn beta(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            stage: Stage::Beta,
            default: true,
            is_negative: false,
            about,
        }
    }

    /// Declares a stable feature, always on.
    pub const fn ga(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            stage: Stage::Ga,
            default: true,
            is_negative: false,
            about,
        }
    }
}

impl GateSet {
    /// Applies a `--feature-gates` value to the defaults of the known gates.
    ///
    /// `AllAlpha` and `AllBeta` apply to the gates that the value does not name, at any position. A gate may occur
    /// several times in `known` because features share gates.
    ///
    /// # Errors
    /// The value has an entry other than `Name=true|false`, an unknown or repeated name, or disables a stable
    /// feature.
    pub fn parse<'a>(known: impl IntoIterator<Item = &'a Gate>, text: &str) -> Result<Self, GateError> {
        let gates = known
            .into_iter()
            .map(|gate| (gate.name, (*gate, gate.default)))
            .collect();
        Self { gates }.with(text)
    }

    /// Applies another `--feature-gates` value on top. Gates that the value sets by name or by group change; the
    /// others keep their state.
    ///
    /// # Errors
    /// Same as [`Self::parse`].
    pub fn with(&self, text: &str) -> Result<Self, GateError> {
        let mut gates = self.gates.clone();
        let chosen = entries(text)?;
        for (name, is_on) in &chosen {
            let is_group = [ALL_ALPHA, ALL_BETA].contains(name);
            match gates.get_mut(*name) {
                Some((gate, _)) if gate.stage == Stage::Ga && !is_on => {
                    return Err(GateError::Locked { name: gate.name });
                }
                Some((_, state)) => *state = *is_on,
                None if is_group => {}
                None => {
                    let known = gates
                        .keys()
                        .copied()
                        .chain([ALL_ALPHA, ALL_BETA])
                        .collect::<Vec<_>>()
                        .join(", ");
                    return Err(GateError::Unknown {
                        name: (*name).to_owned(),
                        known,
                    });
                }
            }
        }
        for (gate, state) in gates
            .values_mut()
            .filter(|(gate, _)| !gate.is_negative && !chosen.contains_key(gate.name))
        {
            let group = match gate.stage {
                Stage::Alpha => chosen.get(ALL_ALPHA),
                Stage::Beta => chosen.get(ALL_BETA),
                Stage::Ga => None,
            };
            *state = group.copied().unwrap_or(*state);
        }
        Ok(Self { gates })
    }

    /// Returns true if a feature is on. An unknown gate has its default.
    pub fn enabled(&self, gate: &Gate) -> bool {
        self.gates
            .get(gate.name)
            .map_or(gate.default, |(_, is_on)| *is_on)
    }

    /// Every known gate with its state, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Gate, bool)> {
        self.gates.values().map(|(gate, is_on)| (gate, *is_on))
    }
}

/// Help text of the `--feature-gates` flag: one line per gate.
pub fn help<'a>(known: impl IntoIterator<Item = &'a Gate>) -> String {
    let rows = distinct(known).map(
        |Gate {
             name,
             stage,
             default,
             is_negative: _,
             about,
         }| { format!("  {name}=true|false ({stage}, default {default}): {about}") },
    );
    let first = "Turn features on or off, for example A=true,B=false. AllAlpha and AllBeta set every other gate of that stage.";
    once(first.to_owned()).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Markdown table of gates, sorted by name.
pub fn markdown<'a>(known: impl IntoIterator<Item = &'a Gate>) -> String {
    let rows = distinct(known).map(
        |Gate {
             name,
             stage,
             default,
             is_negative: _,
             about,
         }| {
            let default = if *default { "on" } else { "off" };
            format!("| `{name}` | {stage} | {default} | {about} |\n")
        },
    );
    once("| gate | stage | default | what it does |\n|---|---|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}

fn distinct<'a>(known: impl IntoIterator<Item = &'a Gate>) -> impl Iterator<Item = &'a Gate> {
    known
        .into_iter()
        .map(|gate| (gate.name, gate))
        .collect::<BTreeMap<_, _>>()
        .into_values()
}

/// Entries of a flag value; an empty value has none.
fn entries(text: &str) -> Result<BTreeMap<&str, bool>, GateError> {
    let mut chosen = BTreeMap::new();
    if text.trim().is_empty() {
        return Ok(chosen);
    }
    for entry in text.split(',').map(str::trim) {
        let (name, is_on) = match entry.split_once('=') {
            Some((name, "true")) if !name.is_empty() => (name, true),
            Some((name, "false")) if !name.is_empty() => (name, false),
            _ => {
                return Err(GateError::Syntax {
                    entry: entry.to_owned(),
                });
            }
        };
        if chosen.insert(name, is_on).is_some() {
            return Err(GateError::Repeated {
                name: name.to_owned(),
            });
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    static NEW: Gate = Gate::alpha("New", "Something new.");
    static TRIED: Gate = Gate::beta("Tried", "Something tried.");
    static SHY: Gate = Gate {
        default: false,
        ..Gate::beta("Shy", "Something tried that stays off.")
    };
    static SETTLED: Gate = Gate::ga("Settled", "Something settled.");
    static ALL: [&Gate; 4] = [&NEW, &TRIED, &SHY, &SETTLED];

    #[rstest]
    #[case::defaults("", [false, true, false, true])]
    #[case::one("New=true", [true, true, false, true])]
    #[case::two("New=true, Tried=false", [true, false, false, true])]
    #[case::all_alpha("AllAlpha=true", [true, true, false, true])]
    #[case::all_beta_on("AllBeta=true", [false, true, true, true])]
    #[case::all_beta_off("AllBeta=false", [false, false, false, true])]
    #[case::named_beats_group_before_it("Tried=true,AllBeta=false", [false, true, false, true])]
    #[case::settled_may_be_confirmed("Settled=true", [false, true, false, true])]
    fn a_value_changes_only_what_it_names(#[case] text: &str, #[case] expected: [bool; 4]) {
        let gates = GateSet::parse(ALL, text).unwrap();
        assert_eq!(ALL.map(|gate| gates.enabled(gate)), expected);
    }

    #[test]
    fn group_gates_skip_negative_gates() {
        static DISABLE: Gate = Gate::negative("DisableTried", "Switches off what was tried.");
        let is_on = |text| GateSet::parse([&NEW, &DISABLE], text).unwrap().enabled(&DISABLE);
        assert!(!is_on("") && !is_on("AllAlpha=true"));
        assert!(is_on("DisableTried=true") && is_on("AllAlpha=false,DisableTried=true"));
    }

    #[test]
    fn a_later_value_changes_only_the_gates_it_names() {
        let flags = GateSet::parse(ALL, "New=true,Tried=false").unwrap();
        let later = flags.with("Tried=true").unwrap();
        assert_eq!(ALL.map(|gate| later.enabled(gate)), [true, true, false, true]);
        assert_eq!(flags.with(""), Ok(flags.clone()));
        assert!(matches!(flags.with("Trid=true"), Err(GateError::Unknown { .. })));
    }

    #[rstest]
    #[case(
        "New",
        r#"feature gate entry "New" is not of the form Name=true or Name=false"#
    )]
    #[case(
        "New=yes",
        r#"feature gate entry "New=yes" is not of the form Name=true or Name=false"#
    )]
    #[case(
        "New=true,",
        r#"feature gate entry "" is not of the form Name=true or Name=false"#
    )]
    #[case(
        "=true",
        r#"feature gate entry "=true" is not of the form Name=true or Name=false"#
    )]
    #[case(
        "Newt=true",
        r#"unknown feature gate "Newt"; known gates: New, Settled, Shy, Tried, AllAlpha, AllBeta"#
    )]
    #[case("New=true,New=true", "feature gate New is set more than once")]
    #[case(
        "Settled=false",
        "feature gate Settled is generally available and cannot be switched off"
    )]
    fn a_wrong_value_is_refused_with_its_reason(#[case] text: &str, #[case] reason: &str) {
        assert_eq!(GateSet::parse(ALL, text).unwrap_err().to_string(), reason);
    }

    #[test]
    fn a_gate_shared_by_two_features_is_one_gate() {
        let gates = GateSet::parse([&NEW, &NEW], "New=true").unwrap();
        assert_eq!(gates.iter().collect::<Vec<_>>(), [(&NEW, true)]);
        assert_eq!(markdown([&NEW, &NEW]).lines().count(), 3);
    }

    #[test]
    fn help_and_table_show_every_gate() {
        let (help, table) = (help(ALL), markdown(ALL));
        assert!(help.contains("  New=true|false (alpha, default false): Something new."));
        assert!(table.contains("| `Settled` | GA | on | Something settled. |"));
        assert_eq!((help.lines().count(), table.lines().count()), (5, 6));
    }
}

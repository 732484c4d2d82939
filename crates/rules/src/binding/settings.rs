//! Settings of the rule who may bind pods, as flags have them.

use std::collections::BTreeSet;

use headroom_domain::names;

/// The lists of the flags, each with commas between its entries. Blanks around an entry do not count, nor does an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists<'a> {
    /// `--binding-admission-user-name`: who may bind.
    pub users: &'a str,
    /// `--binding-admission-namespaces`: where the rule applies; `*` and nothing else is everywhere.
    pub namespaces: &'a str,
    /// `--binding-admission-exclude-namespaces`: where it does not, wherever else it applies.
    pub excluded_namespaces: &'a str,
    /// `--binding-admission-bypass-labels`: labels of pods that anybody may bind.
    pub bypass_labels: &'a str,
    /// `--binding-admission-bypass-annotations`: annotations of such pods.
    pub bypass_annotations: &'a str,
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Who may bind. Nobody listed means that the rule is off.
    pub users: BTreeSet<String>,
    /// Where the rule applies.
    pub namespaces: Namespaces,
    /// Where it does not, wherever else it applies.
    pub excluded_namespaces: BTreeSet<String>,
    /// Labels of pods that anybody may bind, with whatever value.
    pub bypass_labels: BTreeSet<String>,
    /// Annotations of pods that anybody may bind, with whatever value.
    pub bypass_annotations: BTreeSet<String>,
    /// Whether what would be denied is only counted.
    pub is_dry_run: bool,
}

/// Where the rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// In every namespace.
    All,
    /// In these; in none if there are none.
    Named(BTreeSet<String>),
}

impl Default for Lists<'_> {
    /// Nobody, nowhere; never in `kube-system`, and not for pods with Koordinator's label.
    fn default() -> Self {
        Self {
            users: "",
            namespaces: "",
            excluded_namespaces: names::KUBE_SYSTEM,
            bypass_labels: names::BINDING_ADMISSION_BYPASS,
            bypass_annotations: "",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::parse(&Lists::default(), false)
    }
}

impl Settings {
    /// Reads the lists. `*` among others, or with blanks around it, is the name of a namespace that does not exist.
    pub fn parse(lists: &Lists<'_>, is_dry_run: bool) -> Self {
        let Lists {
            users,
            namespaces,
            excluded_namespaces,
            bypass_labels,
            bypass_annotations,
        } = *lists;
        Self {
            users: entries(users),
            namespaces: match namespaces {
                "*" => Namespaces::All,
                names => Namespaces::Named(entries(names)),
            },
            excluded_namespaces: entries(excluded_namespaces),
            bypass_labels: entries(bypass_labels),
            bypass_annotations: entries(bypass_annotations),
            is_dry_run,
        }
    }
}

fn entries(list: &str) -> BTreeSet<String> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entries: &[&str]) -> BTreeSet<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_list_has_its_entries_without_blanks() {
        for (list, expected) in [
            ("", set(&[])),
            (" , ,", set(&[])),
            ("a", set(&["a"])),
            (" b ,a,, b", set(&["a", "b"])),
            ("a b", set(&["a b"])),
        ] {
            assert_eq!(entries(list), expected, "{list:?}");
        }
    }

    #[test]
    fn only_a_star_alone_is_every_namespace() {
        let namespaces = |namespaces| {
            let lists = Lists {
                namespaces,
                ..Lists::default()
            };
            Settings::parse(&lists, false).namespaces
        };
        assert_eq!(namespaces("*"), Namespaces::All);
        assert_eq!(namespaces(" *"), Namespaces::Named(set(&["*"])));
        assert_eq!(namespaces("*,x"), Namespaces::Named(set(&["*", "x"])));
        assert_eq!(namespaces(""), Namespaces::Named(set(&[])));
    }

    #[test]
    fn the_defaults_are_koordinators() {
        assert_eq!(
            Settings::default(),
            Settings {
                users: set(&[]),
                namespaces: Namespaces::Named(set(&[])),
                excluded_namespaces: set(&["kube-system"]),
                bypass_labels: set(&["koordinator.sh/binding-admission-bypass"]),
                bypass_annotations: set(&[]),
                is_dry_run: false,
            }
        );
    }
}

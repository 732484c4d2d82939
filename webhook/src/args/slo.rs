//! [`SloArgs`]: flags for the check of Koordinator's ConfigMap, with Koordinator's names.

use clap::Args;
use headroom_rules::slo::Settings;

/// The text that asks for names; any other does not, as with Koordinator.
const ASKS: &str = "true";

/// Flags for the validation of Koordinator's ConfigMap.
#[derive(Debug, Clone, Args)]
pub struct SloArgs {
    /// Require a distinct name for each node strategy in Koordinator's ConfigMap: true requires it, any other value
    /// does not
    #[arg(
        long,
        env = "HEADROOM_NODE_STRATEGY_NAME_NEED_CHECK",
        value_name = "TEXT",
        default_value = "false"
    )]
    pub node_strategy_name_need_check: String,
}

impl SloArgs {
    /// The flags as the rules read them.
    pub fn settings(&self) -> Settings {
        Settings {
            needs_names: self.node_strategy_name_need_check == ASKS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_text_asks_for_names() {
        for (text, needs_names) in [
            ("true", true),
            ("false", false),
            ("True", false),
            ("1", false),
            ("", false),
        ] {
            let args = SloArgs {
                node_strategy_name_need_check: text.to_owned(),
            };
            assert_eq!(args.settings().needs_names, needs_names, "{text:?}");
        }
    }
}

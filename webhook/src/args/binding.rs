//! [`BindingArgs`]: flags for the users that may bind pods, with Koordinator's names.

use clap::Args;
use headroom_domain::names;
use headroom_rules::binding::{Lists, Settings};

#[derive(Debug, Clone, Args)]
pub struct BindingArgs {
    /// Users that may bind pods; if the list is empty, all users may
    #[arg(
        long,
        env = "HEADROOM_BINDING_ADMISSION_USER_NAME",
        value_name = "USER,...",
        default_value = "",
        hide_default_value = true
    )]
    pub binding_admission_user_name: String,
    /// Count bindings by others instead of refusing them
    #[arg(long, env = "HEADROOM_BINDING_ADMISSION_DRY_RUN")]
    pub binding_admission_dry_run: bool,
    /// Namespaces in which only they may; * for all
    #[arg(
        long,
        env = "HEADROOM_BINDING_ADMISSION_NAMESPACES",
        value_name = "NAME,...",
        default_value = "",
        hide_default_value = true
    )]
    pub binding_admission_namespaces: String,
    /// Namespaces in which all users may bind pods
    #[arg(long, env = "HEADROOM_BINDING_ADMISSION_EXCLUDE_NAMESPACES", value_name = "NAME,...", default_value = names::KUBE_SYSTEM)]
    pub binding_admission_exclude_namespaces: String,
    /// Labels of pods that all users may bind, with any value
    #[arg(long, env = "HEADROOM_BINDING_ADMISSION_BYPASS_LABELS", value_name = "KEY,...", default_value = names::BINDING_ADMISSION_BYPASS)]
    pub binding_admission_bypass_labels: String,
    /// Annotations of pods that all users may bind, with any value
    #[arg(
        long,
        env = "HEADROOM_BINDING_ADMISSION_BYPASS_ANNOTATIONS",
        value_name = "KEY,...",
        default_value = "",
        hide_default_value = true
    )]
    pub binding_admission_bypass_annotations: String,
}

impl BindingArgs {
    /// The flags as the rule reads them.
    pub fn settings(&self) -> Settings {
        let Self {
            binding_admission_user_name: users,
            binding_admission_dry_run: is_dry_run,
            binding_admission_namespaces: namespaces,
            binding_admission_exclude_namespaces: excluded_namespaces,
            binding_admission_bypass_labels: bypass_labels,
            binding_admission_bypass_annotations: bypass_annotations,
        } = self;
        let lists = Lists {
            users,
            namespaces,
            excluded_namespaces,
            bypass_labels,
            bypass_annotations,
        };
        Settings::parse(&lists, *is_dry_run)
    }
}

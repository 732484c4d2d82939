//! Decides for each profile whether it applies to a new object, and applies the matching ones in the order of their
//! names, each completely or not at all.
//!
//! All profiles are matched with the original object, so the writes of one profile cannot make another match.

use std::{collections::BTreeMap, fmt, sync::Arc};

use headroom_domain::selector::Labels;

use super::{
    FAILURES_SKIP, KnownProfile, PriorityClass, Profile, ProfileMatch, ProfileTarget, TranslationDecision,
    draw, planned::PlannedProfile, warnings::ProfileWarnings,
};
use crate::{explain::VerdictKind, pod_object::PodObject, switch::Switches};

/// All profiles of the cluster, by name.
pub type ProfileList = BTreeMap<Box<str>, Arc<KnownProfile>>;

/// Object that is being created, before any change.
#[derive(Debug)]
pub struct CreatedObject<'a> {
    /// Kind of the object: Pod or Reservation.
    pub target: ProfileTarget,
    /// UID of its review, from which the draws are derived; without a UID every profile is drawn.
    pub review: Option<&'a str>,
    /// Namespace of the object; empty for Reservations.
    pub namespace: &'a str,
    /// Labels of the object before any change.
    pub labels: Labels,
    /// Labels of its namespace; `None` if the namespace is not known, and for Reservations.
    pub namespace_labels: Option<Arc<Labels>>,
}

/// Profiles, classes and switches for applying profiles.
#[derive(Clone, Copy)]
pub struct ProfileRules<'a> {
    /// All profiles of the cluster, sorted by name.
    pub profiles: &'a ProfileList,
    /// Returns a PriorityClass by its name.
    pub class: &'a dyn Fn(&str) -> Option<Arc<PriorityClass>>,
    /// Switches that are in force.
    pub switches: &'a Switches,
}

/// Result of all profiles for one object.
#[derive(Debug, Default)]
pub struct ProfileReview<'p> {
    /// Decision about the translation of cpu and memory.
    pub translation: TranslationDecision,
    /// Results of profiles that match or may match, by name.
    pub results: Vec<(&'p str, ProfileResult)>,
}

/// Result of one profile for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileResult {
    /// The profile was applied to the object.
    Applied,
    /// The profile does not match.
    NotMatched(ProfileMatch),
    /// The draw skipped this object, according to the probability.
    LeftOut,
    /// The profile cannot be applied, or it is unknown whether it matches.
    Failed(String),
}

/// Profile that cannot be applied and blocks the creation of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingProfile {
    /// Name of the profile that cannot be applied.
    pub profile: String,
    /// Reason why it cannot be applied.
    pub reason: String,
}

impl CreatedObject<'_> {
    /// Matches a profile with the object.
    pub fn matches(&self, profile: &Profile, switches: &Switches) -> ProfileMatch {
        match self.target {
            ProfileTarget::Pod => profile.matches(&self.labels, self.namespace_labels.as_deref()),
            ProfileTarget::Reservation => profile.matches_reservation(&self.labels, switches),
        }
    }

    fn draw(&self, profile: &str) -> u8 {
        self.review.map_or(0, |review| draw(review, profile))
    }

    /// Decides about a profile before it is applied; `Applied` means that it should be applied.
    fn plan(&self, name: &str, known: &KnownProfile, switches: &Switches) -> ProfileResult {
        let profile = match &known.compiled {
            Ok(profile) => profile,
            // An unreadable profile might match any object.
            Err(reason) => return ProfileResult::Failed(reason.clone()),
        };
        match self.matches(profile, switches) {
            ProfileMatch::Matches => {}
            ProfileMatch::UnknownNamespace => {
                let namespace = self.namespace;
                return ProfileResult::Failed(format!(
                    "it selects by namespace, but Namespace {namespace:?} is not known to this replica"
                ));
            }
            other @ (ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace) => {
                return ProfileResult::NotMatched(other);
            }
        }
        if !profile.is_drawn(self.draw(name), switches) {
            return ProfileResult::LeftOut;
        }
        match known.fault() {
            Some(fault) => ProfileResult::Failed(fault.to_owned()),
            None => ProfileResult::Applied,
        }
    }

    /// Writes the reason of a result, unless the result itself is sufficient.
    fn write_reason(
        &self,
        name: &str,
        known: &KnownProfile,
        result: &ProfileResult,
        text: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let profile = match (&known.compiled, result) {
            (_, ProfileResult::Failed(reason)) => return text.write_str(reason),
            (Err(_), _) => return Ok(()),
            (Ok(profile), _) => profile,
        };
        let probability = profile.probability;
        match result {
            ProfileResult::NotMatched(found) => {
                profile.write_mismatch(*found, &self.labels, self.namespace_labels.as_deref(), text)
            }
            ProfileResult::LeftOut => write!(
                text,
                "spec.probability is {probability}, and the draw of this review was {} of 0 to 99",
                self.draw(name)
            ),
            ProfileResult::Applied if self.review.is_none() && probability < 100 => write!(
                text,
                "spec.probability is {probability}: some pods like this one are skipped"
            ),
            ProfileResult::Applied | ProfileResult::Failed(_) => Ok(()),
        }
    }
}

impl<'p> ProfileRules<'p> {
    /// Applies the profiles that match a new object.
    ///
    /// # Errors
    /// A readable profile cannot be applied, and the switch to skip it is off.
    pub fn review<O: PodObject>(
        self,
        created: &CreatedObject<'_>,
        object: &mut O,
    ) -> Result<ProfileReview<'p>, BlockingProfile> {
        let profiles = self.profiles.iter();
        let mut results: Vec<_> = profiles
            .map(|(name, known)| (&**name, &**known, created.plan(name, known, self.switches)))
            .collect();
        self.apply(created.target, &mut results, object);
        let (mut review, mut warnings) = (ProfileReview::default(), ProfileWarnings::default());
        for (name, known, result) in results {
            object.explain(|explanation| {
                explanation.note_profile(name, result.verdict(), |text| {
                    created.write_reason(name, known, &result, text)
                });
            });
            match &result {
                ProfileResult::NotMatched(_) => continue,
                ProfileResult::Applied => {
                    review
                        .translation
                        .count(true, known.skip.as_deref(), self.switches);
                    let profile = known.compiled.as_ref();
                    let member = profile
                        .ok()
                        .and_then(|profile| profile.left_out(created.target, self.switches));
                    if let Some(member) = member {
                        warnings.push(|| {
                            format!("colocation profile {name}: its patch may not write {member}, which stays unchanged")
                        });
                    }
                }
                ProfileResult::LeftOut => {
                    review
                        .translation
                        .count(false, known.skip.as_deref(), self.switches);
                }
                ProfileResult::Failed(reason) => {
                    if known.compiled.is_ok() && !self.switches.is_on(&FAILURES_SKIP) {
                        let (profile, reason) = (name.to_owned(), reason.clone());
                        return Err(BlockingProfile { profile, reason });
                    }
                    warnings.push(|| format!("colocation profile {name} was not applied: {reason}"));
                }
            }
            review.results.push((name, result));
        }
        warnings.write(created.target, object);
        Ok(review)
    }

    /// Applies the planned profiles; a failure changes their result.
    fn apply<O: PodObject>(
        self,
        target: ProfileTarget,
        results: &mut [(&str, &KnownProfile, ProfileResult)],
        object: &mut O,
    ) {
        let is_planned = |result: &ProfileResult| *result == ProfileResult::Applied;
        let planned = results.iter().filter(|(.., result)| is_planned(result));
        let planned = planned.filter_map(|(name, known, _)| {
            let profile = known.compiled.as_ref().ok()?;
            let class = profile.priority_class_name().and_then(self.class);
            Some(PlannedProfile::new(name, profile, class, target, self.switches))
        });
        let planned: Vec<_> = planned.collect();
        if planned.is_empty() {
            return;
        }
        let done = object.apply_each(&planned);
        let planned = results.iter_mut().filter(|(.., result)| is_planned(result));
        for ((.., result), done) in planned.zip(done) {
            if let Err(reason) = done {
                *result = ProfileResult::Failed(reason);
            }
        }
    }
}

impl ProfileResult {
    /// Label value of metrics, also used in audit annotations.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotMatched(_) => "other",
            Self::LeftOut => "chance",
            Self::Failed(_) => "failed",
        }
    }

    const fn verdict(&self) -> VerdictKind {
        match self {
            Self::Applied => VerdictKind::Applied,
            Self::NotMatched(ProfileMatch::OtherNamespace) => VerdictKind::OtherNamespace,
            Self::NotMatched(_) => VerdictKind::OtherLabels,
            Self::LeftOut => VerdictKind::Chance,
            Self::Failed(_) => VerdictKind::Failed,
        }
    }
}

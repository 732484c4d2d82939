// Command celcost evaluates the cost of the expressions of admission policies for given writes, with the API server's own code.
//
// It reads JSON from standard input: {"policies": [...], "writes": [...]}, where a policy is a MutatingAdmissionPolicy or a
// ValidatingAdmissionPolicy of admissionregistration.k8s.io/v1 and a write is
//
//	{"name": "...", "user": "...", "subresource": "status", "object": {...}, "oldObject": {...}}
//
// of a Node; without oldObject it is a CREATE. It writes one JSON object per line for every expression of every matching
// policy: {"policy", "write", "expression", "cost", "limit", "error"}. Costs include the used variables, which have separate
// limits. The last line of a policy is the total cost. A cost above the limit has an error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authentication "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policy has the common fields of the two kinds, and the expressions of both.
type policy struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		MatchConditions []registration.MatchCondition `json:"matchConditions"`
		Variables       []registration.Variable       `json:"variables"`
		Mutations       []registration.Mutation       `json:"mutations"`
		Validations     []registration.Validation     `json:"validations"`
	} `json:"spec"`
}

// write is a write of a Node.
type write struct {
	Name        string         `json:"name"`
	User        string         `json:"user"`
	Subresource string         `json:"subresource"`
	Object      map[string]any `json:"object"`
	OldObject   map[string]any `json:"oldObject"`
}

// row is the cost of one expression for one write.
type row struct {
	Policy     string `json:"policy"`
	Write      string `json:"write"`
	Expression string `json:"expression"`
	Cost       int64  `json:"cost"`
	Limit      int64  `json:"limit"`
	Error      string `json:"error,omitempty"`
}

// boolean is an expression with a boolean result.
type boolean string

func (b boolean) GetExpression() string      { return string(b) }
func (b boolean) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.BoolType} }

// text is an expression with a message as its result.
type text string

func (t text) GetExpression() string      { return string(t) }
func (t text) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.StringType} }

func main() {
	var input struct {
		Policies []policy `json:"policies"`
		Writes   []write  `json:"writes"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		fail(err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, policy := range input.Policies {
		for _, write := range input.Writes {
			rows, err := costs(policy, write)
			if err != nil {
				fail(fmt.Errorf("%s at %s: %w", policy.Metadata.Name, write.Name, err))
			}
			for _, row := range rows {
				row.Policy, row.Write = policy.Metadata.Name, write.Name
				if err := out.Encode(row); err != nil {
					fail(err)
				}
			}
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "celcost:", err)
	os.Exit(1)
}

// costs returns the costs of the policy for the write. If a match condition is false, it returns only those of the conditions.
func costs(policy policy, write write) ([]row, error) {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range policy.Spec.Variables {
		accessor := &validating.Variable{Name: variable.Name, Expression: variable.Expression}
		result := compiler.CompileAndStoreVariable(accessor, options, environment.StoredExpressions)
		if result.Error != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, result.Error)
		}
	}
	attributes, request := written(write)

	// conditions evaluates expressions one after another; variables are evaluated at most once.
	conditions := func(budget int64, accessors ...plugincel.ExpressionAccessor) ([]plugincel.EvaluationResult, int64, error) {
		evaluator := compiler.CompileCondition(accessors, options, environment.StoredExpressions)
		for _, err := range evaluator.CompilationErrors() {
			return nil, 0, err
		}
		results, left, err := evaluator.ForInput(context.Background(), attributes, request, plugincel.OptionalVariableBindings{}, nil, budget)
		return results, budget - left, err
	}

	var rows []row
	add := func(expression string, cost, limit int64, err error) {
		row := row{Expression: expression, Cost: cost, Limit: limit}
		if err != nil {
			row.Error = err.Error()
		}
		rows = append(rows, row)
	}

	matches, together := true, int64(0)
	for _, condition := range policy.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(condition)
		results, cost, err := conditions(celconfig.RuntimeCELCostBudgetMatchConditions, &condition)
		if err == nil {
			err = results[0].Error
		}
		add("condition "+condition.Name, cost, celconfig.PerCallLimit, err)
		together += cost
		matches = matches && err == nil && results[0].EvalResult.Value() == true
	}
	add("conditions together", together, celconfig.RuntimeCELCostBudgetMatchConditions, nil)
	if !matches {
		return rows, nil
	}

	for _, variable := range policy.Spec.Variables {
		results, cost, err := conditions(1<<40, boolean(fmt.Sprintf("[dyn(variables.%s)].size() == 1", variable.Name)))
		if err == nil {
			err = results[0].Error
		}
		add("variable "+variable.Name, cost, celconfig.PerCallLimit, err)
	}

	together = 0
	for i, mutation := range policy.Spec.Mutations {
		patchOptions := options
		patchOptions.HasPatchTypes = true
		accessor := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
		evaluator := compiler.CompileMutatingEvaluator(accessor, patchOptions, environment.StoredExpressions)
		for _, err := range evaluator.CompilationErrors() {
			return nil, err
		}
		const budget = 1 << 40
		result, left, err := evaluator.ForInput(compiler.CreateContext(context.Background()), attributes, request, plugincel.OptionalVariableBindings{}, nil, budget)
		if err == nil {
			err = result.Error
		}
		// Includes the variables that it uses.
		add(fmt.Sprintf("mutation %d", i), budget-left, celconfig.RuntimeCELCostBudget, err)
		together += budget - left
	}
	var validations []plugincel.ExpressionAccessor
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, boolean(validation.Expression))
		if validation.MessageExpression != "" {
			validations = append(validations, text(validation.MessageExpression))
		}
	}
	// All at once, as the API server evaluates them: one alone costs no more.
	if len(validations) > 0 {
		results, cost, err := conditions(1<<40, validations...)
		if err != nil {
			return nil, err
		}
		for i, result := range results {
			if _, isText := validations[i].(text); !isText && result.Error != nil {
				add(fmt.Sprintf("validation %d", i), cost, celconfig.RuntimeCELCostBudget, result.Error)
			}
		}
		together += cost
	}
	add("together", together, celconfig.RuntimeCELCostBudget, nil)
	return rows, nil
}

// written returns the write in the form of admission plugins.
func written(write write) (*admission.VersionedAttributes, *admissionv1.AdmissionRequest) {
	operation, old := admissionv1.Create, runtime.Object(nil)
	if write.OldObject != nil {
		operation, old = admissionv1.Update, &unstructured.Unstructured{Object: write.OldObject}
	}
	object := &unstructured.Unstructured{Object: write.Object}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	attributes := admission.NewAttributesRecord(object, old, kind, "", object.GetName(), resource, write.Subresource,
		admission.Operation(operation), nil, false, nil)
	request := &admissionv1.AdmissionRequest{
		Name:        object.GetName(),
		Operation:   operation,
		SubResource: write.Subresource,
		UserInfo:    authentication.UserInfo{Username: write.User},
	}
	versioned := &admission.VersionedAttributes{
		Attributes:         attributes,
		VersionedKind:      kind,
		VersionedObject:    object,
		VersionedOldObject: old,
	}
	return versioned, request
}

// Command quantities prints the golden table for tests of crates/domain's quantities, with Kubernetes' own package. Tests read
// the table and need no Go. To regenerate it, run in the module's folder:
//
//	go run -mod=readonly ./quantities > ../../domain/tests/golden/quantities.tsv
//
// Columns are separated by tabs, inputs are JSON strings. `-` means that an amount has no 64-bit value.
//
//	read    input   canonical   text   milli   units   format
//	refuse  input
//	times   resource   quantity   ratio   amount   text
//	sum     left   right   left+right   left-right
//
// In read rows, text is the result of String, which is the input for some non-canonical quantities, such as +1. Fractions of
// milli and units are rounded away from zero. In times rows, amounts are milli-cores or bytes, see product.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// none means that an amount has no 64-bit value.
	none = "-"
	// cpu amounts are in thousandths.
	cpu = "cpu"
	// memory amounts are in whole units.
	memory = "memory"
	// ratioDigits is the number of decimals of a ratio; further digits are truncated.
	ratioDigits = 9
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quantities:", err)
		os.Exit(1)
	}
}

func write(out io.Writer) error {
	if _, err := fmt.Fprintln(out, "# Written by crates/xtask/controlplane/quantities from k8s.io/apimachinery; do not edit."); err != nil {
		return err
	}
	var rows []string
	for _, input := range inputs() {
		row, err := reading(input)
		if err != nil {
			return fmt.Errorf("%q: %w", input, err)
		}
		rows = append(rows, row)
	}
	for _, p := range products() {
		row, err := p.row()
		if err != nil {
			return fmt.Errorf("%+v: %w", p, err)
		}
		rows = append(rows, row)
	}
	for _, left := range operands {
		for _, right := range operands {
			row, err := sum(left, right)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", left, right, err)
			}
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(out, row); err != nil {
			return err
		}
	}
	return nil
}

// reading returns the row of one input.
func reading(input string) (string, error) {
	quoted, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	q, err := resource.ParseQuantity(input)
	if err != nil {
		return fmt.Sprintf("refuse\t%s", quoted), nil
	}
	number, suffix := q.CanonicalizeBytes(nil)
	canonical := string(number) + string(suffix)
	text := q.String()
	milli, err := counted(q, resource.Milli)
	if err != nil {
		return "", err
	}
	units, err := counted(q, 0)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("read\t%s\t%s\t%s\t%s\t%s\t%s", quoted, canonical, text, milli, units, q.Format), nil
}

// counted returns q in steps of 10^scale. Kubernetes' own conversion does not report an overflow, so the exact amount is used.
// Both must agree for non-negative 64-bit values; Kubernetes rounds the negative value -0.1m to +1m.
func counted(q resource.Quantity, scale resource.Scale) (string, error) {
	own := q.DeepCopy()
	exact := exactly(q, scale)
	if !exact.IsInt64() {
		return none, nil
	}
	if got := own.ScaledValue(scale); exact.Sign() >= 0 && got != exact.Int64() {
		return "", fmt.Errorf("in steps of 10^%d: %d, exactly %s", scale, got, exact)
	}
	return exact.String(), nil
}

// exactly returns q in steps of 10^scale, with fractions rounded away from zero.
func exactly(q resource.Quantity, scale resource.Scale) *big.Int {
	copied := q.DeepCopy()
	decimal := copied.AsDec()
	steps := new(big.Int).Set(decimal.UnscaledBig())
	power := -int64(decimal.Scale()) - int64(scale)
	if power >= 0 {
		return steps.Mul(steps, tenTo(power))
	}
	_, rest := steps.QuoRem(steps, tenTo(-power), new(big.Int))
	return steps.Add(steps, big.NewInt(int64(rest.Sign())))
}

// sum returns the row of two operands, with canonical results.
func sum(left, right string) (string, error) {
	added, err := resource.ParseQuantity(left)
	if err != nil {
		return "", err
	}
	other, err := resource.ParseQuantity(right)
	if err != nil {
		return "", err
	}
	taken := added.DeepCopy()
	added.Add(other)
	taken.Sub(other)
	return fmt.Sprintf("sum\t%s\t%s\t%s\t%s", left, right, added.String(), taken.String()), nil
}

func tenTo(power int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(power), nil)
}

// A product is Headroom's amplified value of a raw value: amount × ratio in whole milli-cores or bytes, truncated once.
type product struct {
	resource, quantity, ratio string
}

func (p product) row() (string, error) {
	q, err := resource.ParseQuantity(p.quantity)
	if err != nil {
		return "", err
	}
	ratio, ok := new(big.Rat).SetString(p.ratio)
	if !ok {
		return "", fmt.Errorf("%q is not a number", p.ratio)
	}
	scale := resource.Scale(0)
	if p.resource == cpu {
		scale = resource.Milli
	}
	unit := tenTo(ratioDigits)
	scaled := new(big.Rat).Mul(ratio, new(big.Rat).SetInt(unit))
	cut := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	amount := exactly(q, scale)
	amount.Mul(amount, cut).Quo(amount, unit)
	shown, text := none, none
	if amount.IsInt64() {
		shown = amount.String()
		result := resource.NewQuantity(amount.Int64(), q.Format)
		if p.resource == cpu {
			result = resource.NewMilliQuantity(amount.Int64(), resource.DecimalSI)
		}
		text = result.String()
	}
	return fmt.Sprintf("times\t%s\t%s\t%s\t%s\t%s", p.resource, p.quantity, p.ratio, shown, text), nil
}

// inputs lists all inputs without duplicates.
func inputs() []string {
	var list []string
	for _, number := range numbers {
		for _, suffix := range suffixes {
			list = append(list, number+suffix)
		}
	}
	for _, number := range signed {
		for _, suffix := range []string{"", "n", "m", "k", "E", "Ki", "Gi", "Ei", "e3", "e-3"} {
			list = append(list, number+suffix)
		}
	}
	list = append(list, edges...)
	list = append(list, junk...)
	list = append(list, exponents...)
	list = append(list, digitless...)
	slices.Sort(list)
	return slices.Compact(list)
}

func products() []product {
	var list []product
	for _, quantity := range []string{
		"0", "1m", "999m", "1", "1001m", "3920m", "4", "4000m", "7910m", "64", "0.0005", "250", "9223372036854775807m", "5E",
	} {
		for _, ratio := range ratios {
			list = append(list, product{cpu, quantity, ratio})
		}
	}
	for _, quantity := range []string{
		"0", "1", "1Ki", "1023", "1000M", "1000000001", "1500m", "1e9", "7Gi", "32Gi", "32612508Ki", "8Pi", "12Pi", "7Ei", "8191Pi",
	} {
		for _, ratio := range ratios {
			list = append(list, product{memory, quantity, ratio})
		}
	}
	return list
}

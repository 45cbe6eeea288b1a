package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// render builds one of the two ways to run the pods, as `kubectl kustomize` does.
func render(t *testing.T, dir string) []*resource.Resource {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return all.Resources()
}

// decode reads a manifest into the type of its kind. It fails for unknown fields and for
// values of a wrong type.
func decode(t *testing.T, r *resource.Resource) any {
	t.Helper()
	text, err := r.AsYAML()
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{
		"v1/Service":                         &corev1.Service{},
		"apps/v1/StatefulSet":                &appsv1.StatefulSet{},
		"apps/v1/Deployment":                 &appsv1.Deployment{},
		"policy/v1/PodDisruptionBudget":      &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1/NetworkPolicy": &networkingv1.NetworkPolicy{},
	}[r.GetApiVersion()+"/"+r.GetKind()]
	if into == nil {
		t.Fatalf("%s %s is not expected", r.GetApiVersion(), r.GetKind())
	}
	if err := decodeStrictly(text, into); err != nil {
		t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
	}
	return into
}

// decodeStrictly decodes as an API server does for strict clients: names of fields have
// their case, and unknown or repeated ones are errors.
func decodeStrictly(text []byte, into any) error {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(strict, err)...)
}

func TestManifestsAreValid(t *testing.T) {
	for _, dir := range []string{"../../kubernetes/statefulset", "../../kubernetes/deployment", "../../kubernetes/overlay"} {
		kinds := map[string]int{}
		var pods corev1.PodTemplateSpec
		var replicas *int32
		services := map[string]*corev1.Service{}
		for _, r := range render(t, dir) {
			kinds[r.GetKind()]++
			switch x := decode(t, r).(type) {
			case *appsv1.StatefulSet:
				pods, replicas = x.Spec.Template, x.Spec.Replicas
			case *appsv1.Deployment:
				pods, replicas = x.Spec.Template, x.Spec.Replicas
			case *corev1.Service:
				services[x.Name] = x
			}
		}
		if len(kinds) != 4 || kinds["Service"] != 2 {
			t.Errorf("%s: %v", dir, kinds)
		}
		checkPods(t, pods, services)
		checkSizes(t, dir, pods.Spec.Containers[0], replicas)
	}
}

// checkPods checks what no schema does: names that must be equal in two places.
func checkPods(t *testing.T, pods corev1.PodTemplateSpec, services map[string]*corev1.Service) {
	t.Helper()
	c := pods.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("a probe of port %s, which the pods do not have", probe.HTTPGet.Port.StrVal)
		}
	}
	for name, s := range services {
		for k, v := range s.Spec.Selector {
			if pods.Labels[k] != v {
				t.Errorf("service %s selects %s=%s; the pods have %v", name, k, v, pods.Labels)
			}
		}
	}
	args := strings.Join(c.Args, " ")
	for _, want := range []string{"--join=peerage-peers:7101", "--http-host=peerage "} {
		if !strings.Contains(args, want) {
			t.Errorf("the arguments lack %s: %s", want, args)
		}
	}
	if services["peerage-peers"] == nil || services["peerage"] == nil {
		t.Errorf("the services are %v", services)
	}
	volumes := map[string]bool{"data": true}
	for _, v := range pods.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("volume %s is mounted and not there", m.Name)
		}
	}
}

// checkSizes checks the settings that follow from the number of pods and from their memory.
func checkSizes(t *testing.T, dir string, c corev1.Container, replicas *int32) {
	t.Helper()
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	if replicas == nil || env["BOOTSTRAP_EXPECT"] != fmt.Sprint(*replicas/2+1) {
		t.Errorf("%s: BOOTSTRAP_EXPECT is %q of %v replicas", dir, env["BOOTSTRAP_EXPECT"], replicas)
	}
	var soft int64 // in MiB, as Go reads the variable
	if _, err := fmt.Sscanf(env["GOMEMLIMIT"], "%dMiB", &soft); err != nil {
		t.Errorf("%s: GOMEMLIMIT is %q", dir, env["GOMEMLIMIT"])
	}
	if limit := c.Resources.Limits.Memory().Value() >> 20; soft*100 < limit*85 || soft*100 > limit*90 {
		t.Errorf("%s: GOMEMLIMIT is %d MiB of %d MiB", dir, soft, limit)
	}
}

// A manifest with an unknown field, or a value of a wrong type, is found.
func TestDecodingIsStrict(t *testing.T) {
	for _, bad := range []string{"spec: {clusterIp: None}", "spec: {publishNotReadyAddresses: 3}", "spec: {ports: [{port: http}]}"} {
		if err := decodeStrictly([]byte(bad), &corev1.Service{}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// arguments returns those of the pods, with the variables that the kubelet replaces.
func arguments(t *testing.T, dir string) []string {
	t.Helper()
	for _, r := range render(t, dir) {
		var pods corev1.PodSpec
		switch x := decode(t, r).(type) {
		case *appsv1.StatefulSet:
			pods = x.Spec.Template.Spec
		case *appsv1.Deployment:
			pods = x.Spec.Template.Spec
		default:
			continue
		}
		return strings.Split(strings.NewReplacer("$(POD_NAME)", "peerage-0", "$(POD_IP)", "10.1.2.3", "$(BOOTSTRAP_EXPECT)", "2").Replace(strings.Join(pods.Containers[0].Args, "\n")), "\n")
	}
	t.Fatal(fmt.Sprint("no pods in ", dir))
	return nil
}

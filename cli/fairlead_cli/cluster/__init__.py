"""Access to the API server, with kubectl's options and defaults.

    --kubeconfig, --context, -n, -A, -l ──target.options──▶ Target ─┬─ ask(question)    one question, one answer
                                                                    └─ pages(source)    a stream, as it arrives
    collections ─┬─ items(kube, path)            a collection, page by page
                 └─ changes(kube, paths)         the same, and then each change

A command names the options it takes and gets a ``target``:

    @click.command()
    @target.options(namespace=True, all_namespaces=True, selector=True)
    @printer.options()
    def objects(target: Target, shown: Printer) -> None:
        found = target.ask(lambda kube: collections.items(kube, target.path("objectsyncs"), **target.query()))

A question may also write: ``kube.request("PATCH", path, body, content_type=MERGE_PATCH)``.  An unreachable cluster or a
refused request becomes one sentence on standard error and exit code 1.

Without --kubeconfig, KUBECONFIG is used (several files are merged as by kubectl), then ~/.kube/config, then the pod's
service account.  Without -n, the namespace is that of the context, else `default`.
"""

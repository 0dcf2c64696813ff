import java.util.*;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.*;
import scala.Option;
import scala.collection.Iterator;

/** Finds what a Catalyst plan reads. Compiled by Janino, as CatalystReader is. */
public class PlanSources {
    /** Leaves that hold their rows, or refer to another part of the same plan. */
    private static final List CONSTANT = Arrays.asList(new Object[] {
        "LocalRelation", "OneRowRelation", "Range", "ResolvedInlineTable", "CTERelationRef", "UnionLoopRef"});

    /** The tables that a plan reads, and what it reads that is no table: [table or null, name or null, text, line]. */
    public static List of(LogicalPlan plan, Set tables) {
        List found = new ArrayList();
        visit(plan, tables, found);
        return found;
    }

    private static boolean visit(LogicalPlan plan, Set tables, List found) {
        if (plan instanceof View && tables.contains(viewName((View) plan))) {
            return found.add(source(viewName((View) plan), null, plan));
        }
        boolean reads = false;
        List inner = new ArrayList();
        for (Iterator i = plan.subqueries().iterator(); i.hasNext();) reads |= visit((LogicalPlan) i.next(), tables, inner);
        for (Iterator i = plan.children().iterator(); i.hasNext();) reads |= visit((LogicalPlan) i.next(), tables, inner);
        if (plan instanceof View && !reads) {
            found.add(source(null, viewName((View) plan), plan));
        } else if (plan.children().isEmpty() && !CONSTANT.contains(plan.getClass().getSimpleName().replace("$", ""))) {
            found.add(source(null, relationName(plan), plan));
        } else {
            found.addAll(inner);
        }
        return reads;
    }

    private static List source(String table, String name, LogicalPlan plan) {
        return Arrays.asList(new Object[] {table, name, plan.simpleString(5), plan.origin().line().isDefined() ? plan.origin().line().get() : null});
    }

    private static String relationName(LogicalPlan plan) {
        for (int i = 0; i < plan.productArity(); i++) {
            Object part = plan.productElement(i);
            if (part instanceof Option && ((Option) part).isDefined()) part = ((Option) part).get();
            if (part instanceof CatalogTable) return ((CatalogTable) part).identifier().unquotedString();
        }
        return null;
    }

    /** The name of a view, by which it is told from others whatever the case of its letters. */
    public static String viewName(View view) {
        return view.desc().identifier().unquotedString().toLowerCase(Locale.ROOT);
    }
}
